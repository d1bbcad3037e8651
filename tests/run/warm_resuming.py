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
from turnwise.run.command import train_run
from turnwise.run.demonstrations import rescue_round
from turnwise.setup.request import RunRequest


async def killed(*_arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def play(request: RunRequest) -> None:
    trained = await train_run(request, request.read(None), from_start=request.run is not None)
    assert trained.is_finished


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
            begun = {"run.folder": str(root / "runs"), "run.name": name}
            request = RunRequest(run=path) if path.exists() else RunRequest(recipe, begun)
            asyncio.run(play(request))

        assert in_a_process(job) == dies, name


if __name__ == "__main__":
    main()
