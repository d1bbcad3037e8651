"""`turnwise train` by several processes: starting them, and joining those that were started."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from turnwise.cli.options import fail

if TYPE_CHECKING:
    from turnwise.system.ranks import Ranks


def with_processes(overrides: list[str], asked: int | None) -> list[str]:
    """Add the number of processes to the overrides: as requested, or as many as a launcher started."""
    launched = _num_launched()
    if asked is not None and launched not in (None, asked):
        fail(f"--processes {asked}, and {launched} were launched: leave it out")
    count = asked or launched
    return [*overrides, f"hardware.num_processes={count}"] if count else overrides


def require_no_launcher(command: str) -> None:
    """Fail if a launcher started several processes of a command that one does."""
    from turnwise.system.ranks.launch import is_launched

    if is_launched():
        fail(f"{command} is done by one process: start it without torchrun or accelerate")


def _num_launched() -> int | None:
    """Return None without a launcher; this is checked before importing torch, which takes seconds."""
    from turnwise.system.ranks.launch import is_launched

    if not is_launched():
        return None
    from turnwise.system.ranks.group import num_launched, take_device

    try:
        take_device()
    except ValueError as error:
        fail(str(error))
    return num_launched()


def are_to_be_started(count: int) -> bool:
    return count > 1 and _num_launched() is None


def start(count: int, device: str, command: Sequence[str]) -> int:
    """Run turnwise's command in every process; return the exit code of the first that failed, else 0."""
    from turnwise.models.devices import choose_device
    from turnwise.system.ranks.launch import launch

    try:
        device = choose_device(device)
    except ValueError as error:
        fail(str(error))
    if device == "mps":
        fail(f"hardware.num_processes is {count}, and there is one device of kind 'mps': use 1")
    if device == "cuda":
        import torch

        if count > torch.cuda.device_count():
            fail(f"hardware.num_processes is {count}, and torch finds {torch.cuda.device_count()} GPUs")
    return launch([sys.executable, "-m", "turnwise", *command], count)


@contextlib.contextmanager
def joined(device: str, strategy: str) -> "Iterator[Ranks]":
    """Join the launched processes, or run alone, during the block; this process ends with its launcher."""
    from turnwise.system.ranks import Alone
    from turnwise.system.ranks.launch import watch_launcher

    if _num_launched() is None and strategy == "data_parallel":
        yield Alone()
        return
    watch_launcher()

    from turnwise.models.devices import choose_device
    from turnwise.system.ranks import group

    try:
        device = choose_device(device)
    except ValueError as error:
        fail(str(error))
    with group.joined(device, is_sharded=strategy != "data_parallel") as ranks:
        yield ranks
