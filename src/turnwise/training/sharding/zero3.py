"""Shard a network over ranks by DeepSpeed's ZeRO-3.

DeepSpeed gathers a module's weights when it runs and releases them afterwards. Gradients are reduced here,
and each rank accumulates those of its own part. Steps are taken by our optimizer, not DeepSpeed's: whether a
step may be taken is known only once its gradients are, and checkpoints have one format for all strategies.
"""

import logging
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from turnwise.config.optional_packages import install_command

_CONFIG: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {
        "stage": 3,
        # no weight stays gathered, or is being prefetched, when a step changes the parts
        "stage3_param_persistence_threshold": 0,
        "stage3_max_reuse_distance": 0,
        "stage3_prefetch_bucket_size": 0,
    },
}


class ZeroNetwork:
    """A network with every parameter cut into one contiguous range per rank."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        # DeepSpeed calls torch functions that newer versions deprecate: the user cannot change that
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\.")
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        os.environ.setdefault("DS_ACCELERATOR", device.type)  # else it detects one, and logs that
        os.environ.setdefault("LOCAL_RANK", "0")  # required even with a single process
        try:
            import deepspeed
        except ImportError:
            message = "hardware.strategy is 'zero3', and DeepSpeed is not installed: "
            raise ValueError(message + install_command("deepspeed")) from None
        # on a CPU it would spend two minutes compiling an op that only its inference engine uses
        deepspeed.ops.__compatible_ops__ = defaultdict(bool)
        dtype = next(network.parameters()).dtype
        config = {**_CONFIG, "bf16": {"enabled": dtype is torch.bfloat16}}
        # parameters are moved to the device and cut one by one: all of them would not fit
        deepspeed.zero.Init(module=network, config_dict_or_path=config, dtype=dtype)
        for module in network.modules():
            for name, buffer in module.named_buffers(recurse=False):
                module._buffers[name] = buffer.to(device)
        engine, *_ = deepspeed.initialize(model=network, config=config, dist_init_required=False)
        self._gather = deepspeed.zero.GatheredParameters
        self._holder: Any = engine.optimizer
        self._parameters: list[Any] = list(network.parameters())
        for parameter in self._parameters:
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(_keep_part)

    def settle(self) -> None:
        """Release the weights that a pass has left gathered."""
        self._holder.partition_all_parameters()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        self.settle()
        with self._gather(self._parameters):
            yield


def _keep_part(parameter: Any) -> None:
    """Sum the gradient over ranks in fp32, and add this rank's part to what it has accumulated."""
    distributed: Any = torch.distributed
    size = parameter.ds_tensor.numel()
    padded = torch.zeros(size * distributed.get_world_size(), device=parameter.grad.device)
    padded[: parameter.grad.numel()] = parameter.grad.reshape(-1)
    part = torch.empty(size, device=padded.device)
    reduce = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
    reduce(part, padded)
    parameter.grad = None
    kept: Tensor | None = getattr(parameter, "kept_grad", None)
    parameter.kept_grad = part if kept is None else kept.add_(part)
