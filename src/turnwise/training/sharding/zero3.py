"""Shard a network over ranks by DeepSpeed's ZeRO-3.

DeepSpeed brings a module's weights together for its turn and lets them go. Gradients are added up here as
they come, each rank keeping those of its own part, and steps are taken by the optimizer that takes all
others: whether one may be taken is known only once its gradients are, and checkpoints are one kind for all.
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

_CONFIG: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {
        "stage": 3,
        # nothing stays whole, or is on its way, when a step changes the parts
        "stage3_param_persistence_threshold": 0,
        "stage3_max_reuse_distance": 0,
        "stage3_prefetch_bucket_size": 0,
    },
}


class ZeroNetwork:
    """Every parameter of the network, cut into as many runs of numbers as there are ranks."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        # what it calls of torch goes by other names in newer ones, which is not the user's concern
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\.")
        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        os.environ.setdefault("DS_ACCELERATOR", device.type)  # it would look for one, and say so
        os.environ.setdefault("LOCAL_RANK", "0")  # it asks for it also where there is one process
        try:
            import deepspeed
        except ImportError:
            message = "hardware.strategy is 'zero3', and DeepSpeed is not installed: "
            raise ValueError(message + "pip install 'turnwise[deepspeed]'") from None
        # on a CPU it would compile an operation for two minutes that only its own inference calls
        deepspeed.ops.__compatible_ops__ = defaultdict(bool)
        dtype = next(network.parameters()).dtype
        config = {**_CONFIG, "bf16": {"enabled": dtype is torch.bfloat16}}
        # one parameter after the other goes to the device and is cut there: all would not fit
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
        """Let go of what a pass has left whole."""
        self._holder.partition_all_parameters()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        self.settle()
        with self._gather(self._parameters):
            yield


def _keep_part(parameter: Any) -> None:
    """Of the sum of all ranks' gradients this rank's part, in fp32, added to what it has."""
    distributed: Any = torch.distributed
    size = parameter.ds_tensor.numel()
    whole = torch.zeros(size * distributed.get_world_size(), device=parameter.grad.device)
    whole[: parameter.grad.numel()] = parameter.grad.reshape(-1)
    part = torch.empty(size, device=whole.device)
    reduce = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
    reduce(part, whole)
    parameter.grad = None
    kept: Tensor | None = getattr(parameter, "kept_grad", None)
    parameter.kept_grad = part if kept is None else kept.add_(part)
