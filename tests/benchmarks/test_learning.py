"""The verdicts of the learning gate on hand-made results: goals of true rewards, of controls, of presets."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.benchmarks.loading import BENCHMARKS, loaded

learning = loaded("learning")


def row(variant: str, seed: int, before: float, after: float, gain: tuple[float, float]) -> dict[str, Any]:
    interval = {"low": after - 0.05, "high": after + 0.05, "gain_low": gain[0], "gain_high": gain[1]}
    rest = {"num_steps": 10, "seconds": 60.0, "curve": (before, after)}
    return {"variant": variant, "seed": seed, "before": before, "after": after, **interval, **rest}


def judged(variant: str, *runs: tuple[float, float, float, float], goal: float = 0.9) -> Any:
    """The verdict over runs of (success before, success after, low and high end of its gain)."""
    results = [
        learning.Result(**row(variant, seed, before, after, (low, high)))
        for seed, (before, after, low, high) in enumerate(runs)
    ]
    return learning.judge(results, goal)


def test_true_rewards_must_reach_the_goal_with_every_seed() -> None:
    met = judged("true rewards", (0.1, 0.95, 0.8, 0.9), (0.1, 0.9, 0.7, 0.9))
    assert (met.is_met, met.seen) == (True, "0.900")
    one_below = judged("true rewards", (0.1, 0.99, 0.8, 0.9), (0.1, 0.899, 0.7, 0.9))
    assert (one_below.is_met, one_below.seen) == (False, "0.899")
    assert judged("true rewards", (0.1, 0.8, 0.6, 0.8), goal=0.8).is_met


@pytest.mark.parametrize("control", ["learning rate 0", "shuffled"])
def test_a_control_must_stay_within_the_noise_between_seeds(control: str) -> None:
    # gains 0.1, -0.1, 0.03: mean 0.01, deviation 0.1015; Student's t for two degrees of freedom is 4.303
    walked = judged(control, *((0.2, after, 0.0, 0.0) for after in (0.3, 0.1, 0.23)))
    assert (walked.is_met, walked.seen) == (True, "-0.242 to +0.262")
    # gains 0.30, 0.31, 0.29: 0.3 ± 4.303 · 0.01 / √3
    gained = judged(control, *((0.2, after, 0.0, 0.0) for after in (0.5, 0.51, 0.49)))
    assert (gained.is_met, gained.seen) == (False, "+0.275 to +0.325")
    lost = judged(control, *((0.6, after, 0.0, 0.0) for after in (0.3, 0.31, 0.29)))
    assert not lost.is_met, "a control that falls was moved too"


def test_a_control_of_one_seed_is_judged_by_the_interval_over_its_tasks() -> None:
    assert judged("shuffled", (0.2, 0.25, -0.02, 0.12)).is_met
    beyond = judged("shuffled", (0.2, 0.4, 0.1, 0.3))
    assert (beyond.is_met, beyond.seen) == (False, "+0.100 to +0.300")


def test_a_preset_must_gain_more_than_noise_with_every_seed() -> None:
    assert judged("dapo", (0.1, 0.6, 0.4, 0.6), (0.1, 0.3, 0.01, 0.3)).is_met
    assert not judged("dapo", (0.1, 0.6, 0.4, 0.6), (0.1, 0.2, 0.0, 0.2)).is_met


def test_stored_results_are_judged_without_a_run_and_a_miss_is_the_exit_status(tmp_path: Path) -> None:
    flat, risen = (0.2, 0.2, (-0.1, 0.1)), (0.2, 0.95, (0.6, 0.8))
    for variant, found in (("true rewards", risen), ("learning rate 0", flat), ("shuffled", risen)):
        name = f"{variant.replace(' ', '-')}-7.json"
        (tmp_path / name).write_text(json.dumps(row(variant, 7, *found)))
    command = [warm.heavy(), str(BENCHMARKS / "learning.py"), "--out", str(tmp_path), "--seeds", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    verdicts = [line for line in done.stdout.splitlines() if "met" in line.lower() or "MISSED" in line]
    assert [line.rsplit("|", 2)[1].strip() for line in verdicts] == ["met", "met", "MISSED"]
    (tmp_path / "shuffled-7.json").write_text(json.dumps(row("shuffled", 7, *flat)))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
