"""Plays a run with a warm start without a break, and once more with a kill before its rescues.

    python tests/run/warm_resuming.py FOLDER

Both are runs in FOLDER/runs, `unbroken` and `broken`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from tests.run.resuming import in_a_process
from tests.shown import recipe_in
from turnwise.records.folder import RunFolder
from turnwise.run.command import train_in
from turnwise.run.demonstrations import rescue_round


async def killed(*_arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def play(folder: RunFolder) -> None:
    with folder:
        assert await train_in(folder)


def main() -> None:
    root = Path(sys.argv[1])
    recipe = recipe_in(root, *sys.argv[2:])
    for name, is_killed, dies in (
        ("unbroken", False, 0),
        ("broken", True, signal.SIGKILL),
        ("broken", False, 0),
    ):

        def job(name: str = name, is_killed: bool = is_killed) -> None:
            torch.set_num_threads(2)
            if is_killed:
                rescue_round._play_round = killed
            path = root / "runs" / name
            folder = (
                RunFolder.open(path)
                if path.exists()
                else RunFolder.create(root / "runs", name, recipe, is_dated=False)
            )
            asyncio.run(play(folder))

        assert in_a_process(job) == dies, name


if __name__ == "__main__":
    main()
