"""A short run for trackers: a few steps of figures, and episodes, one of them hostile."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rewards.episodes import QUOTE, did, episode, said
from turnwise.config import Recipe
from turnwise.records.folder import RunFolder
from turnwise.types import Answer, Group, Reward, Trajectory, Truth

HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e \ud800 weave:/// | \x00 " + "x" * 1_000_000
"""Markup, an escape, right-to-left, a lone surrogate, a reference, a table border, a NUL and a megabyte."""

SECRET = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Bins:
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Fired:
    name: str


def groups() -> list[Group]:
    """One successful episode, and one in which model, tool and user write hostile text."""
    good = episode(Truth(answer=Answer("12")), did(QUOTE, "12 dollars", symbol="ACME"), said("It is 12."))
    bad = episode(Truth(), did(QUOTE, HOSTILE, symbol=HOSTILE), said(HOSTILE), prompt=HOSTILE)
    rewards = Reward(1.05, {"outcome": 1.0, "format": 1.0}), Reward(0.0, {"outcome": 0.0})
    return [Group(good.task, (good, bad), rewards)]


def is_success(trajectory: Trajectory, reward: Reward) -> bool:
    return reward.total > 1


def begin(root: Path, *trackers: Any) -> RunFolder:
    """The folder of a new run, with its trackers started."""
    recipe = Recipe.model_validate({"seed": 7, "trackers": trackers})
    folder = RunFolder.create(root, "run", recipe, is_dated=False)
    folder.start_trackers()
    return folder


def play(folder: RunFolder, *steps: int) -> None:
    """Report these steps, and an evaluation at the end: 3 records a step and 1 more."""
    for step in steps:
        folder.trackers.episodes(step, groups(), is_success)
        folder.log(step, "rollout", {"reward/mean": 0.5 + step, "success/rate": 0.25})
        folder.log(
            step,
            "update",
            {"loss/policy": float("nan") if step == 1 else 0.125, "gradient/norm": 2.0},
            histograms={"ratio": Bins((0.9, 1.0, 1.1), (1, 5, 7, 2))},
            alarms=[Fired("truncation")] if step == 1 else (),
        )
    figures = {"success": 0.5, "success/lookups": 1.0}
    folder.trackers.evaluation("after", steps[-1] + 1, "embedded, version 3", figures, groups(), is_success)


def tracked(root: Path, tracker: Any, *steps: int) -> RunFolder:
    """A finished run of these steps."""
    with begin(root, tracker) as folder:
        play(folder, *steps)
    return folder


def resumed(folder: RunFolder, num_steps: int, *steps: int) -> None:
    """Resume a run after `num_steps` and log the figure `a` for further steps."""
    with RunFolder.open(folder.path) as again:
        again.start_trackers()
        again.cut(num_steps)
        for step in steps:
            again.log(step, "update", {"a": 10.0 + step})


def log_of(folder: RunFolder) -> str:
    return (folder.path / "training.log").read_text()


def files_with(folder: RunFolder, secret: str) -> list[Path]:
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    return [path for path in files if secret.encode() in path.read_bytes()]


def run_program(program: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a separate process."""
    return subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.05)
