"""What trackers are tried on: a few steps of figures, and episodes, one of them hostile."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rewards.episodes import QUOTE, did, episode, said
from turnwise.config import Recipe
from turnwise.tracking.folder import RunFolder
from turnwise.types import Answer, Group, Reward, Trajectory, Truth

HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e \ud800 weave:/// | \x00 " + "x" * 1_000_000
"""Markup, escapes, right to left, half a character, a reference, a table's edge, a NUL and a megabyte."""


@dataclass(frozen=True)
class Bins:
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Fired:
    name: str


def groups() -> list[Group]:
    """An episode that did well, and one in which everybody wrote what they should not."""
    good = episode(Truth(answer=Answer("12")), did(QUOTE, "12 dollars", symbol="ACME"), said("It is 12."))
    bad = episode(Truth(), did(QUOTE, HOSTILE, symbol=HOSTILE), said(HOSTILE), prompt=HOSTILE)
    rewards = Reward(1.05, {"outcome": 1.0, "format": 1.0}), Reward(0.0, {"outcome": 0.0})
    return [Group(good.task, (good, bad), rewards)]


def is_success(trajectory: Trajectory, reward: Reward) -> bool:
    return reward.total > 1


def begin(root: Path, *trackers: Any, name: str = "run") -> RunFolder:
    """A new run's folder, its trackers at work."""
    recipe = Recipe.model_validate({"seed": 7, "trackers": trackers})
    folder = RunFolder.create(root, name, recipe, is_dated=False)
    folder.start_trackers()
    return folder


def play(folder: RunFolder, *steps: int) -> None:
    """What a run tells its folder, step by step, and an evaluation at the end."""
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
