"""Let SkyRL's workers run on CPUs: what they ask of CUDA and NCCL is answered by the CPU and gloo.

SkyRL's own code is unchanged; only functions of torch are replaced, in the processes of its workers.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh

CPU = torch.device("cpu")


def install() -> None:
    """Replace the functions of torch that SkyRL's FSDP workers call and that need a GPU."""
    if torch.cuda.is_available() or torch.cuda.device_count() > 0:
        return
    torch.cuda.current_device = lambda: CPU  # only ever the target of `.to`
    torch.cuda.set_device = _nothing
    torch.cuda.synchronize = _nothing
    torch.cuda.device_count = lambda: 1  # SkyRL takes a rank modulo this number
    torch.cuda.mem_get_info = lambda *args: (0, 0)
    torch.Tensor.cuda = lambda tensor, *args, **kwargs: tensor  # type: ignore[method-assign]
    _replace_mesh()
    _replace_backend()


def _nothing(*args: Any, **kwargs: Any) -> None: ...


def _replace_mesh() -> None:
    real = device_mesh.init_device_mesh

    def on_cpu(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return real("cpu", *args, **kwargs)

    device_mesh.init_device_mesh = on_cpu


def _replace_backend() -> None:
    real = dist.init_process_group

    def over_gloo(backend: str, **kwargs: Any) -> None:
        real(backend="gloo", **kwargs)

    dist.init_process_group = over_gloo
