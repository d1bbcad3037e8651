"""Saves checkpoints and is killed over it, at every line of checkpoint.py in turn, or when somebody likes.

    python tests/training/saving.py lines FOLDER        forks, kills, looks, and says what it found
    python tests/training/saving.py on FOLDER STEP      saves step after step until it is killed

A line of the source is a finer instant than a system call.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from turnwise.training.update import checkpoint

SOURCES = {checkpoint.__file__, shutil.__file__}
SMALL, LARGE = 1_000, 2_000_000


def tensors_of(step: int, size: int) -> dict[str, torch.Tensor]:
    """What a checkpoint of that step holds: anybody can tell whether it is whole."""
    return {"weights": torch.full((size,), float(step)), "random": torch.arange(step, step + 64).byte()}


def facts_of(step: int) -> dict[str, Any]:
    return {"step": step, "text": "ü" * step, "third": step / 3}


class KillAt:
    """Kills this process at the given line of checkpoint.py, or of what removes folders for it."""

    def __init__(self, line: int) -> None:
        self._left = line

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in SOURCES:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def save_once(folder: Path, step: int, size: int) -> None:
    checkpoint.save(folder, step, tensors_of(step, size), facts_of(step))
    checkpoint.prune(folder, 1, None)


def save_and_die(folder: Path, step: int, kill_at: int) -> bool:
    """In a process of its own; True if it came to the end before that line."""
    child = os.fork()
    if not child:
        sys.settrace(KillAt(kill_at))
        save_once(folder, step, SMALL)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status == 0


def kill_at_every_line(folder: Path) -> None:
    """`KILL_AT SAFE FOUND LEFT`: the step that was safe before, the one found after, and what lies about."""
    save_once(folder, 0, SMALL)
    safe, kill_at, is_over = 0, 1, False
    while not is_over:
        is_over = save_and_die(folder, safe + 1, kill_at)
        found = checkpoint.latest(folder)
        assert found is not None
        assert found.facts == facts_of(found.step)
        expected = tensors_of(found.step, SMALL)
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.items())
        for path in folder.glob("step-*"):
            checkpoint.load(path)  # what bears the name is whole
        left = ",".join(sorted(path.name for path in folder.iterdir()))
        print(kill_at, safe, found.step, left, flush=True)
        checkpoint.prune(folder, 1, None)  # else each would have more to do than the one before
        safe, kill_at = found.step, kill_at + 1


def main() -> None:
    torch.set_num_threads(1)  # no threads to be lost by a fork
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "lines":
        kill_at_every_line(folder)
        return
    for step in range(int(sys.argv[3]), 10_000):
        save_once(folder, step, LARGE)
        print(step, flush=True)


if __name__ == "__main__":
    main()
