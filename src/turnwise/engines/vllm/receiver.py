"""The part of us that runs inside vLLM's process: it loads weights and reports what it holds."""

import os
import select
import signal
import threading
from typing import Any

import torch

from turnwise.engines.weight_transfer import PinnedBlocks, Table, read_block

_blocks = PinnedBlocks()  # not the mixin's: vLLM calls no constructor of it


class Receiver:
    """A mixin for vLLM's worker, given by name; its methods run in vLLM's process."""

    model_runner: Any

    def take_weights(self, path: str, table: Table) -> None:
        """Load weights, named as in transformers, from the block that is offered at `path`."""
        weights = _blocks.read(path, table) if torch.cuda.is_available() else read_block(path, table)
        self.model_runner.reload_weights(weights_iterator=weights)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the block may be written again when this returns

    def held_bytes(self) -> dict[str, int]:
        caches = {id(tensor): tensor for tensor in _tensors(getattr(self.model_runner, "kv_caches", ()))}
        held = {
            "weights": int(getattr(self.model_runner, "model_memory_usage", 0)),
            "cache": sum(cache.numel() * cache.element_size() for cache in caches.values()),
        }
        if torch.cuda.is_available():
            held["reserved"] = torch.cuda.memory_reserved()
        return held

    def end_with(self, owner: int) -> None:
        """Kill vLLM when the process `owner` ends; else a killed owner would leave it holding the GPU."""
        try:
            watched = os.pidfd_open(owner)
        except OSError:  # an old kernel or a strict container: rely on vLLM's own handling
            return
        # The worker is a child of vLLM's engine process, or that process itself.
        engine = os.getppid() if os.getppid() != owner else os.getpid()
        threading.Thread(target=_end_after, args=(watched, engine), daemon=True).start()


def _end_after(watched: int, engine: int) -> None:
    ended = select.poll()
    ended.register(watched, select.POLLIN)
    ended.poll()
    # SIGKILL: the owner is gone, so a clean shutdown has no use.
    if engine == os.getppid():
        os.kill(engine, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for part in found for tensor in _tensors(part)]
