"""Saves checkpoints in child processes that are killed at every line of checkpoint.py in turn.

    python tests/training/saving.py FOLDER

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


def tensors_of(step: int, size: int = 1000) -> dict[str, torch.Tensor]:
    """The tensors of that step's checkpoint: incomplete ones are easily recognised."""
    return {"weights": torch.full((size,), float(step)), "random": torch.arange(step, step + 64).byte()}


def facts_of(step: int) -> dict[str, Any]:
    return {"step": step, "text": "ü" * step, "third": step / 3}


class KillAt:
    """A trace function that kills this process at the given line of checkpoint.py or shutil.py."""

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


def save_once(folder: Path, step: int) -> None:
    checkpoint.save(folder, step, tensors_of(step), facts_of(step))
    checkpoint.prune(folder, 1, None)


def save_and_die(folder: Path, step: int, kill_at: int) -> bool:
    """Save in a child process; True if it ended before that line."""
    child = os.fork()
    if not child:
        sys.settrace(KillAt(kill_at))
        save_once(folder, step)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status == 0


def main(folder: Path) -> None:
    """Print `KILL_AT SAFE FOUND LEFT`: the last step saved before, the step found after, and all files."""
    torch.set_num_threads(1)  # a fork would lose other threads
    save_once(folder, 0)
    safe, kill_at, is_over = 0, 1, False
    while not is_over:
        is_over = save_and_die(folder, safe + 1, kill_at)
        found = checkpoint.latest(folder)
        assert found is not None
        assert found.facts == facts_of(found.step)
        expected = tensors_of(found.step)
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.items())
        for path in folder.glob("step-*"):
            checkpoint.load(path)  # a folder with this name is complete
        left = ",".join(sorted(path.name for path in folder.iterdir()))
        print(kill_at, safe, found.step, left, flush=True)
        checkpoint.prune(folder, 1, None)  # so that every child has the same work to do
        safe, kill_at = found.step, kill_at + 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
