"""Pass weights to another process: as a block of shared memory, or as a model's or adapter's folder."""

import copy
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from turnwise.protocols import Adapter

ALIGNMENT = 64
"""In bytes: one cache line, and more than any dtype needs."""

Table = Sequence[tuple[str, str, Sequence[int], int]]
"""Name, dtype, shape and offset of each tensor."""


@dataclass(frozen=True, slots=True)
class Block:
    """Named tensors stored one after another in anonymous shared memory."""

    file: int
    table: Table

    @property
    def path(self) -> str:
        """The path at which another process of the same user can open the memory."""
        return f"/proc/{os.getpid()}/fd/{self.file}"

    def close(self) -> None:
        os.close(self.file)


def lay_out(weights: Mapping[str, Any]) -> Block:
    """Copy tensors from any device into a new block."""
    table: list[tuple[str, str, Sequence[int], int]] = []
    size = 0
    for name, tensor in weights.items():
        table.append((name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), size))
        size += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    file = os.memfd_create("turnwise-weights")  # unlike /dev/shm, limited only by the memory
    try:
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
        with torch.no_grad():
            for name, tensor in _views(memory, table):
                tensor.copy_(weights[name])
    except BaseException:
        os.close(file)
        raise
    return Block(file, table)


def read_block(path: str, table: Table) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of another process's block; changes to them stay in this process."""
    with Path(path).open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return _views(memory, table)


def _views(memory: mmap.mmap, table: Table) -> Iterator[tuple[str, torch.Tensor]]:
    for name, dtype, shape, offset in table:
        kind = getattr(torch, dtype)
        flat = torch.frombuffer(memory, dtype=kind, count=math.prod(shape), offset=offset)
        yield name, flat.view(tuple(shape))


def write_model(model: Any, folder: Path, weights: Mapping[str, Any] | None = None) -> None:
    """Save the configuration and the unquantised weights of a transformers model.

    `weights`: the weights to save if the model's parameters are quantised.
    """
    from safetensors.torch import save_file

    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # save_pretrained refuses a config read from a quantised file
    config.save_pretrained(folder)
    numbers = dict(model.named_parameters()) if weights is None else weights
    # tied weights are saved once; readers tie them again
    tensors = {name: number.detach().cpu().contiguous() for name, number in numbers.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_adapter(adapter: Adapter, folder: Path, dtype: str) -> None:
    """Save an adapter in peft's format, rounded to the engine's dtype."""
    from safetensors.torch import save_file

    folder.mkdir()
    config = {
        "peft_type": "LORA",
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "target_modules": sorted({name.split(".")[-2] for name in adapter.tensors}),
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    given = [tensor.detach() for tensor in adapter.tensors.values()]
    # one copy for all: each copy from a device waits for the device
    flat = torch.cat([tensor.reshape(-1) for tensor in given]).to(getattr(torch, dtype)).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in given])
    tensors = {
        f"base_model.model.{name}.weight": part.view(tensor.shape)
        for name, part, tensor in zip(adapter.tensors, parts, given, strict=True)
    }
    save_file(tensors, folder / "adapter_model.safetensors")
