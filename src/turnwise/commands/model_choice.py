"""Which model this machine can train: the largest of a few whose memory is known."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.config.requirements import is_installed


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, and the memory for a run of `turnwise init`'s recipe that recomputes one episode at a time.

    With more memory, a run plays more episodes at once and recomputes nothing.
    """

    path: str
    cuda_gb: float
    """With bfloat16 weights and a cache of 50,000 tokens."""
    other_gb: float
    """With float32 weights and a cache of 16,384 tokens, on a CPU or a Mac."""

    def needed_gb(self, machine: "Machine") -> float:
        return self.cuda_gb if machine.device == "cuda" else self.other_gb


CHOICES: Sequence[Choice] = (
    Choice("Qwen/Qwen3-8B", 44.6, 75.5),
    Choice("Qwen/Qwen3-4B", 27.3, 40.7),
    Choice("Qwen/Qwen3-1.7B", 15.9, 19.9),
    Choice("Qwen/Qwen3-0.6B", 11.0, 9.9),
)
"""Largest first. `turnwise doctor --plan` computes these figures; a test keeps them true."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that a model would be trained on."""

    device: str
    """cuda, mps or cpu."""
    total_gb: float


def this_machine() -> Machine:
    """The best device and its memory; without torch, only an NVIDIA GPU or the CPU is found."""
    if is_installed("torch"):
        from turnwise.runtime.device_memory import memory_of
        from turnwise.runtime.devices import choose_device

        device = choose_device()
        return Machine(device, memory_of(device).total / 1e9)
    if (gpu_bytes := _nvidia_bytes()) is not None:
        return Machine("cuda", gpu_bytes / 1e9)
    return Machine("cpu", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def largest_model(machine: Machine) -> Choice:
    """The largest model that fits, or the smallest if none does or if there is no GPU to make it fast."""
    *larger, smallest = CHOICES
    fitting = (choice for choice in larger if choice.needed_gb(machine) <= machine.total_gb)
    return smallest if machine.device == "cpu" else next(fitting, smallest)


def _nvidia_bytes() -> int | None:
    """The memory of the first NVIDIA GPU; None if there is none, or no driver."""
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    found = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    return int(found.stdout) * 2**20 if found.stdout.strip().isdigit() else None
