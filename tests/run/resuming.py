"""Plays a run without a break, and once more in processes that are killed and resumed.

    python tests/run/resuming.py FOLDER SETTINGS TASKS STAGE…

SETTINGS: the sections of a recipe as JSON. TASKS: a task file. A stage is `whole` (to the end), or where its
process is killed: `collection:N` at its N-th tool call, `update:N` at its N-th training pass,
`save:STEP:LINE` at that line of checkpoint.py while it saves after that many steps. Tool calls take other
random times in every stage, and a resumed run is told of less memory. All of this is hooked in from here; the
package knows nothing of it.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parents[2]))

import peft  # noqa: F401 (once, before the forks)
import torch
from rich.console import Console

from tests.rollout.collection import TalkingChat
from tests.run.stage import recipe
from tests.setup.resolved import resolved
from tests.training.saving import KillAt
from turnwise.models.device_memory import Memory
from turnwise.records.folder import RunFolder
from turnwise.run.loop import train
from turnwise.run.screen.screen import Screen
from turnwise.run.start_up import open_run
from turnwise.run.training_run import TrainingRun
from turnwise.setup.sizes import with_sizes
from turnwise.system.stopping import Stopping

MEMORY = (2**36, 2**24)
"""The machine's memory at the start and when the run is resumed, which would find smaller micro-batches."""


def killed_at(count: int) -> Callable[[], None]:
    """A function that kills this process when it is called for the `count`-th time; 0: never."""
    left = count

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count_down


def hook_collections(run: TrainingRun, delays: random.Random, count_down: Callable[[], None]) -> None:
    """Every call of a tool takes a random time and counts."""
    hooked: Any = run
    new_collector = hooked.new_collector

    def collector_of(step: int, *state: Any) -> Any:
        collector = new_collector(step, *state)
        inner = collector._lease

        @contextlib.asynccontextmanager
        async def lease(*arguments: Any) -> AsyncIterator[Any]:
            async with inner(*arguments) as toolbox:
                call = toolbox.call

                async def delayed(calls: Any, **options: Any) -> Any:
                    await asyncio.sleep(delays.uniform(0, 0.03))
                    count_down()
                    return await call(calls, **options)

                toolbox.call = delayed
                yield toolbox

        collector._lease = lease
        return collector

    hooked.new_collector = collector_of


def hook_updates(run: TrainingRun, count_down: Callable[[], None]) -> None:
    policy: Any = run.trainer.policy
    score = policy.score

    def counted(*arguments: Any, **options: Any) -> Any:
        if torch.is_grad_enabled():
            count_down()
        return score(*arguments, **options)

    policy.score = counted


def hook_saves(run: TrainingRun, num_steps: int, line: int) -> None:
    hooked: Any = run.checkpoints
    inner = hooked.save

    def traced(progress: Any) -> None:
        if progress.next_step == num_steps:
            sys.settrace(KillAt(line))
        inner(progress)
        sys.settrace(None)

    hooked.save = traced


async def play(root: Path, settings: dict[str, Any], tasks: Path, stage: str, number: int) -> None:
    if number:
        folder = RunFolder.open(root / "runs" / "run")
    else:
        sys.executable = str(Path(sys.prefix, "bin", "python"))  # a server sees a private /dev/shm
        begun = recipe(root, **settings)
        shutil.copy(tasks, root / "train.jsonl")
        folder = RunFolder.create(root / "runs", "run", begun, is_dated=False)
    where, *counts = stage.split(":")
    count_down = {where: killed_at(int(counts[0]))} if counts else {}
    with folder:
        screen = Screen(Console(stderr=True), folder.recipe.run)
        sized = with_sizes(resolved(folder.recipe), Memory(MEMORY[min(number, 1)], MEMORY[min(number, 1)]))
        folder.change_recipe(sized.recipe)
        async with open_run(sized, folder, screen) as run:
            run.bench = replace(run.bench, chat=TalkingChat(run.bench.chat))  # type: ignore[arg-type]
            delays = random.Random(f"{root} {number}")
            hook_collections(run, delays, count_down.get("collection", killed_at(0)))
            hook_updates(run, count_down.get("update", killed_at(0)))
            if where == "save":
                hook_saves(run, int(counts[0]), int(counts[1]))
            ended = await train(run, Stopping())
    assert not ended.why, ended.why


def in_a_process(job: Callable[[], None]) -> int:
    """Run in a fork, before any thread is started and with torch imported; returns the signal it died of."""
    child = os.fork()
    if not child:
        try:
            job()
        except BaseException:  # noqa: BLE001 (printed; it must not continue with the parent's code)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a stage failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main() -> None:
    root, settings, tasks = Path(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3])
    for name, number, stage in [
        ("unbroken", 0, "whole"),
        *(("broken", *numbered) for numbered in enumerate(sys.argv[4:])),
    ]:

        def job(name: str = name, number: int = number, stage: str = stage) -> None:
            torch.set_num_threads(2)
            asyncio.run(play(root / name, settings, tasks, stage, number))

        died_of = in_a_process(job)
        assert died_of == (0 if stage == "whole" else signal.SIGKILL), f"{stage} ended with signal {died_of}"


if __name__ == "__main__":
    main()
