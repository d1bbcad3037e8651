"""Plays a run unbroken, and once more in processes that are killed, each going on from what was left.

    python tests/run/resuming.py FOLDER SETTINGS STAGE…

SETTINGS: a recipe's sections as JSON. A stage is `whole` (to the end), or where its process dies by SIGKILL:
`collection:N` at its N-th tool call, `update:N` at its N-th training pass, `save:STEP:LINE` at that line of
checkpoint.py while it saves after that many steps. Every stage has other luck with its tools' delays. All of
this is hooked in from here; the package knows nothing of it.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
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
from tests.rollout.stage import task
from tests.run.stage import recipe
from tests.training.saving import KillAt
from turnwise.rollout.collector import Collector
from turnwise.run.loop import train
from turnwise.run.progress import RunProgress
from turnwise.run.screen import Screen
from turnwise.run.stopping import Stopping
from turnwise.run.training_run import TrainingRun, open_run
from turnwise.tasks.load import save
from turnwise.tracking.folder import RunFolder
from turnwise.types import Difficulty, ToolCall, ToolResult

LEVELS = (Difficulty.EASY, Difficulty.MEDIUM, Difficulty.HARD)


class Fate:
    """Counts down to this process's end."""

    def __init__(self, count: int) -> None:
        self._left = count

    def come_nearer(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FatedToolbox:
    """A toolbox whose calls take a random while, and one of which is the last."""

    def __init__(self, inner: Any, luck: random.Random, fate: Fate) -> None:
        self._inner = inner
        self._luck = luck
        self._fate = fate
        self.tools, self.losses = inner.tools, inner.losses

    async def call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        await asyncio.sleep(self._luck.uniform(0, 0.03))
        self._fate.come_nearer()
        results: list[ToolResult] = await self._inner.call(calls)
        return results


def hook_collections(run: TrainingRun, luck: random.Random, fate: Fate) -> None:
    new_collector = run.new_collector

    def hooked(step: int) -> Collector:
        collector = new_collector(step)
        inner = collector._lease

        @contextlib.asynccontextmanager
        async def lease(*arguments: Any) -> AsyncIterator[Any]:
            async with inner(*arguments) as toolbox:
                yield FatedToolbox(toolbox, luck, fate)

        collector._lease = lease
        return collector

    run.new_collector = hooked  # type: ignore[method-assign]


def hook_updates(run: TrainingRun, fate: Fate) -> None:
    policy: Any = run.trainer.policy
    score = policy.score

    def hooked(*arguments: Any, **options: Any) -> Any:
        if torch.is_grad_enabled():
            fate.come_nearer()
        return score(*arguments, **options)

    policy.score = hooked


def hook_saves(run: TrainingRun, num_steps: int, line: int) -> None:
    inner = run.save

    def hooked(progress: RunProgress) -> None:
        if progress.next_step == num_steps:
            sys.settrace(KillAt(line))
        inner(progress)
        sys.settrace(None)

    run.save = hooked  # type: ignore[method-assign]


async def play(root: Path, settings: dict[str, Any], stage: str, number: int) -> None:
    resolved = recipe(root, **settings) if not number else None
    path = root / "runs" / "run"
    if resolved is not None:
        tasks = [task(f"train{n}", difficulty=LEVELS[n % 3], max_turns=3) for n in range(12)]
        save(tasks, root / "train.jsonl")
        folder = RunFolder.create(root / "runs", "run", resolved, is_dated=False)
    else:
        folder = RunFolder.open(path)
    screen = Screen(Console(stderr=True), folder.recipe)
    with folder:
        async with open_run(folder.recipe, folder, screen) as run:
            run.bench = replace(run.bench, chat=TalkingChat(run.bench.chat))  # type: ignore[arg-type]
            where, *counts = stage.split(":")
            never = Fate(0)
            fate = Fate(int(counts[0])) if counts else never
            hook_collections(run, random.Random(f"{root} {number}"), fate if where == "collection" else never)
            hook_updates(run, fate if where == "update" else never)
            if where == "save":
                hook_saves(run, int(counts[0]), int(counts[1]))
            ended = await train(run, Stopping())
    assert not ended.why, ended.why


def in_a_process(job: Callable[[], None]) -> int:
    """Forked before any thread is started, so that torch is read in once; gives the signal it died of."""
    child = os.fork()
    if not child:
        try:
            job()
        except BaseException:  # noqa: BLE001 (told, and never let on into the parent's own code)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a stage failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main() -> None:
    root, settings, stages = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]

    def job_of(name: str, number: int, stage: str) -> Callable[[], None]:
        def job() -> None:
            torch.set_num_threads(2)
            asyncio.run(play(root / name, settings, stage, number))

        return job

    plan = [("unbroken", 0, "whole"), *(("broken", number, stage) for number, stage in enumerate(stages))]
    for name, number, stage in plan:
        died_of = in_a_process(job_of(name, number, stage))
        assert died_of == (0 if stage == "whole" else signal.SIGKILL), f"{stage} ended with signal {died_of}"


if __name__ == "__main__":
    main()
