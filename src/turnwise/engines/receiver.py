"""Takes what is told to vLLM's own process: weights to load, what it holds, when to end."""

import os
import signal
import threading
import time
from typing import Any

import torch

from turnwise.engines.handover import Table, read_block


class Receiver:
    """Mixed into vLLM's worker, by name: these run in the engine's process."""

    model_runner: Any

    def take_weights(self, path: str, table: Table) -> None:
        """Load weights, under the names of transformers, from the block of memory at `path`."""
        self.model_runner.reload_weights(weights_iterator=read_block(path, table))

    def held_bytes(self) -> dict[str, int]:
        caches = {id(each): each for each in _tensors(getattr(self.model_runner, "kv_caches", ()))}
        held = {
            "weights": int(getattr(self.model_runner, "model_memory_usage", 0)),
            "cache": sum(each.numel() * each.element_size() for each in caches.values()),
        }
        if torch.cuda.is_available():
            held["reserved"] = torch.cuda.memory_reserved()
        return held

    def end_with_parent(self) -> None:
        """From now on: a process whose parent was killed would hold the GPU for ever."""
        threading.Thread(target=_end_after, args=(os.getppid(),), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)  # it has nobody left to tell, and must not wait to


def _tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found for tensor in _tensors(each)]
