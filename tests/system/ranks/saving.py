"""One of several processes: saves checkpoints of a sharded tensor; one process may be killed.

    python -m tests.system.ranks.saving FOLDER [KILLED]

Steps 1 and 2 are saved. With KILLED, the second rank is killed while it writes its part of step 2.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from turnwise.system.ranks import group
from turnwise.training.sharding.shards import Shard
from turnwise.training.update import checkpoint

SHAPE = (3, 5)


def whole(step: int) -> torch.Tensor:
    return torch.arange(15.0).view(SHAPE) + 100 * step


def kill(path: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder, is_killed = Path(sys.argv[1]), "KILLED" in sys.argv
    with group.joined("cpu") as ranks:
        rows = slice(0, 2) if not ranks.number else slice(2, 3)
        for step in (1, 2):
            if is_killed and step == 2 and ranks.number:
                checkpoint._sync = kill
            part = Shard(whole(step)[rows], 5 * rows.start, SHAPE)
            tensors = {"policy/spread": part, "policy/same": torch.tensor([float(step)])}
            checkpoint.save(folder, step, tensors, {"step": step}, ranks)


if __name__ == "__main__":
    main()
