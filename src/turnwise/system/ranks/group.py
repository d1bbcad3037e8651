"""The process group of a run, joined by the environment variables of torchrun, accelerate or our launcher."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor

from turnwise.system.ranks.launch import is_launched
from turnwise.system.ranks.ranks import Alone, Channel, RankFailed, Ranks

Value = TypeVar("Value")

dist: Any = torch.distributed  # its exports have no usable types

_TIMEOUT = timedelta(hours=24)
"""How long to wait for a slow rank. A rank that dies is noticed at once by its connection or launcher."""

_BUCKET_BYTES = 64 * 2**20
"""Summed per call: few calls, and little memory in addition to the gradients."""


class ProcessGroup:
    """Ranks connected by torch.distributed: tensors by the backend of their device, objects by gloo."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._channels: Mapping[Channel, Any] = {
            "steps": dist.new_group(backend="gloo", timeout=_TIMEOUT),
            "rollouts": dist.new_group(backend="gloo", timeout=_TIMEOUT),
        }
        self._cpu_group = dist.new_group(backend="gloo", timeout=_TIMEOUT)

    @property
    def number(self) -> int:
        return int(dist.get_rank())

    @property
    def count(self) -> int:
        return int(dist.get_world_size())

    def exchange(self, value: Value, channel: Channel = "steps") -> list[Value]:
        values: list[Any] = [None] * self.count
        with _rank_failed_on_error():
            dist.all_gather_object(values, value, group=self._channels[channel])
        return values

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in bucket])
            with _rank_failed_on_error():
                dist.all_reduce(flat, group=self._cpu_group if flat.device.type == "cpu" else None)
            totals = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, total in zip(bucket, totals, strict=True):
                tensor.detach().copy_(total.view(tensor.shape))

    def numbers(self, name: str) -> Iterator[int]:
        while True:
            with _rank_failed_on_error():
                number = int(self._store.add(f"numbers/{name}", 1)) - 1
            yield number


@contextlib.contextmanager
def _rank_failed_on_error() -> Iterator[None]:
    """Raise RankFailed if another rank cannot be reached; that rank reports its own error."""
    try:
        yield
    except RuntimeError as error:
        raise RankFailed(f"another process of this run is gone: {str(error).splitlines()[0]}") from error


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in order, in buckets of one type and device and at most `_BUCKET_BYTES`."""
    bucket: list[Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        is_same_kind = not bucket or (tensor.dtype, tensor.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not is_same_kind or num_bytes + tensor.nbytes > _BUCKET_BYTES):
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(tensor)
        num_bytes += tensor.nbytes
    if bucket:
        yield bucket


def num_launched() -> int | None:
    """The number of processes that a launcher has started, including this one; None without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else None


@contextlib.contextmanager
def joined(device: str, *, is_sharded: bool = False) -> Iterator[Ranks]:
    """Join the group of the processes launched together with this one, for the time of the block.

    Without a launcher this is `Alone`, unless `is_sharded`: sharding needs a torch process group even for one
    process.
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
    yield ProcessGroup(dist.PrefixStore("turnwise", store))
    # not after an error: a group with a pending exchange cannot be destroyed, only abandoned
    dist.destroy_process_group()


def take_device() -> None:
    """Make this rank's GPU the only visible one; ValueError if there are fewer GPUs than processes.

    Call it before torch uses a GPU. `cuda` then means the same device to policy, engine, plan and the
    processes of vLLM.
    """
    if num_launched() is None or os.environ.get("TURNWISE_DEVICE_TAKEN"):
        return
    local_rank, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if not count:
        return
    if local_rank >= count:
        raise ValueError(f"process {local_rank} has no GPU: this machine has {count}, one per process")
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    os.environ["CUDA_VISIBLE_DEVICES"] = names[local_rank] if names else str(local_rank)
    os.environ["LOCAL_RANK"] = "0"  # libraries count among the visible GPUs
    os.environ["TURNWISE_DEVICE_TAKEN"] = "1"
