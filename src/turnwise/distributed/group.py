"""Takes the variables that torchrun, accelerate or our own launcher set, gives the group they make."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor

from turnwise.distributed.launch import is_launched
from turnwise.distributed.ranks import Alone, Channel, RankFailed, Ranks

Value = TypeVar("Value")

dist: Any = torch.distributed  # what it exports is too loosely told to check against

_PATIENCE = timedelta(hours=24)
"""For which a slow rank is waited for: one that died is noticed at once, by its connection or launcher."""

_BUCKET_BYTES = 64 * 2**20
"""Summed at a time: few calls, and little memory beside the gradients."""


class Group:
    """Ranks that speak over torch.distributed: tensors by the device's own way, all else over gloo."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._channels: Mapping[Channel, Any] = {
            "steps": dist.new_group(backend="gloo", timeout=_PATIENCE),
            "rollouts": dist.new_group(backend="gloo", timeout=_PATIENCE),
        }
        self._on_cpu = dist.new_group(backend="gloo", timeout=_PATIENCE)

    @property
    def number(self) -> int:
        return int(dist.get_rank())

    @property
    def count(self) -> int:
        return int(dist.get_world_size())

    def exchange(self, value: Value, channel: Channel = "steps") -> list[Value]:
        found: list[Any] = [None] * self.count
        with _telling():
            dist.all_gather_object(found, value, group=self._channels[channel])
        return found

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        for bucket in _buckets(tensors):
            flat = torch.cat([each.detach().reshape(-1) for each in bucket])
            with _telling():
                dist.all_reduce(flat, group=self._on_cpu if flat.device.type == "cpu" else None)
            totals = torch.split(flat, [each.numel() for each in bucket])
            for each, total in zip(bucket, totals, strict=True):
                each.detach().copy_(total.view(each.shape))

    def numbers(self, name: str) -> Iterator[int]:
        while True:
            with _telling():
                number = int(self._store.add(f"numbers/{name}", 1)) - 1
            yield number


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """RankFailed where the others cannot be reached: what happened to them they have said themselves."""
    try:
        yield
    except RuntimeError as error:
        raise RankFailed(f"another process of this run is gone: {str(error).splitlines()[0]}") from error


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """In their order, those of one type and device together, up to so many bytes."""
    bucket: list[Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        is_like = not bucket or (tensor.dtype, tensor.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not is_like or num_bytes + tensor.nbytes > _BUCKET_BYTES):
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += tensor.nbytes
    if bucket:
        yield bucket


def num_launched() -> int | None:
    """Processes that a launcher has started, this one among them; None if there was no launcher."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else None


@contextlib.contextmanager
def joined(device: str, *, is_sharded: bool = False) -> Iterator[Ranks]:
    """This process's place among those launched with it, while the block runs; alone if there are none.

    is_sharded: what shards a model needs a group of torch's also where there is one process.
    """
    num_processes = num_launched()
    if num_processes is None and not is_sharded:
        yield Alone()
        return
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    if num_processes is None:
        store, number, count = dist.HashStore(), 0, 1
    else:
        store, number, count = next(dist.rendezvous("env://"))
    dist.init_process_group(backend, store=dist.PrefixStore("torch", store), rank=number, world_size=count)
    yield Group(dist.PrefixStore("turnwise", store))
    # not where the block failed: what another rank is waited for in cannot be taken down, only left
    dist.destroy_process_group()


def take_device() -> None:
    """Of the GPUs that a launcher left visible, this rank's own becomes the only one; ValueError without one.

    Before torch uses any. `cuda` then means the same to policy, engine and plan on every rank, and to vLLM's
    own processes.
    """
    if num_launched() is None or os.environ.get("TURNWISE_DEVICE_TAKEN"):
        return
    place, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if not count:
        return
    if place >= count:
        raise ValueError(f"process {place} has no GPU: {count} are there, for as many processes at most")
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    os.environ["CUDA_VISIBLE_DEVICES"] = names[place] if names else str(place)
    os.environ["LOCAL_RANK"] = "0"  # of what is visible, which libraries count by
    os.environ["TURNWISE_DEVICE_TAKEN"] = "1"
