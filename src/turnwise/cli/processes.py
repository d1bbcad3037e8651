"""`turnwise train` by several processes: starting them, and what they settle before a run begins."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from turnwise.cli.options import fail

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.records.folder import RunFolder
    from turnwise.system.ranks import Ranks


def with_processes(overrides: list[str], asked: int | None) -> list[str]:
    """Add the number of processes to the overrides: as requested, or as many as a launcher started."""
    launched = _num_launched()
    if asked is not None and launched not in (None, asked):
        fail(f"--processes {asked}, and {launched} were launched: leave it out")
    count = asked or launched
    return [*overrides, f"hardware.num_processes={count}"] if count else overrides


def alone(recipe: "Recipe", command: str) -> None:
    """Require a single process: fail under a launcher, and print which hardware settings are ignored."""
    from turnwise.system.ranks.launch import is_launched

    if is_launched():
        fail(f"{command} is done by one process: start it without torchrun or accelerate")
    hardware = recipe.hardware
    left = [f"hardware.num_processes = {hardware.num_processes}"] if hardware.num_processes > 1 else []
    left += [f"hardware.strategy = '{hardware.strategy}'"] if hardware.strategy != "data_parallel" else []
    if left:
        words = f"{command} is done by one process, which holds the whole model; left out: "
        print(words + ", ".join(left), file=sys.stderr)


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


def are_to_be_started(recipe: "Recipe") -> bool:
    return recipe.hardware.num_processes > 1 and _num_launched() is None


def start(recipe: "Recipe", command: Sequence[str]) -> int:
    """Run turnwise's command in every process; return the exit code of the first that failed, else 0."""
    from turnwise.models.devices import choose_device
    from turnwise.system.ranks.launch import launch

    count = recipe.hardware.num_processes
    try:
        device = choose_device(recipe.model.device)
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
def joined(recipe: "Recipe") -> "Iterator[Ranks]":
    """Join the launched processes, or run alone, during the block; this process ends with its launcher."""
    from turnwise.system.ranks import Alone
    from turnwise.system.ranks.launch import watch_launcher

    hardware = recipe.hardware
    if _num_launched() is None and hardware.strategy == "data_parallel":
        yield Alone()
        return
    watch_launcher()

    from turnwise.models.devices import choose_device
    from turnwise.system.ranks import group

    try:
        device = choose_device(recipe.model.device)
    except ValueError as error:
        fail(str(error))
    with group.joined(device, is_sharded=hardware.strategy != "data_parallel") as ranks:
        yield ranks


@contextlib.contextmanager
def one_folder(ranks: "Ranks", open_it: "Callable[[], RunFolder]") -> "Iterator[RunFolder]":
    """Yield the run's folder: the first rank opens and locks it, the others open it without writing."""
    from turnwise.records.folder import RunFolder
    from turnwise.system.ranks import first_rank_value, is_first

    folder: RunFolder | None = None
    ended: typer.Exit | None = None
    if is_first(ranks):
        try:
            folder = open_it()
        except typer.Exit as error:  # the reason is already printed
            ended = error
    path = first_rank_value(ranks, None if folder is None else folder.path)
    if path is None:
        raise ended or typer.Exit(2)
    with folder or RunFolder.of_other_rank(path) as opened:
        yield opened
