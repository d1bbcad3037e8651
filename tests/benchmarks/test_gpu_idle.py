"""What idle time is made of: nvidia-smi's lines, a run's steps, and the share between two moments."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loading import loaded


@pytest.fixture(scope="module")
def idle() -> Any:
    return loaded("gpu_idle")


def test_looks_are_read_in_the_hosts_time_and_what_is_none_is_left_out(idle: Any) -> None:
    text = (
        "2026/11/15 16:12:01.100, 87\n"
        "2026/11/15 16:12:01.200, [Unknown Error]\n"
        "\n"
        "2026/11/15 16:12:01.300, 0\n"
        "2026/11/15 16:12:01.4"  # cut off as it was ended
    )
    first, last = idle.read_looks(text)
    assert first.time == datetime(2026, 11, 15, 16, 12, 1, 100_000).timestamp()
    assert (first.busy, last.busy) == (0.87, 0.0)
    assert last.time - first.time == pytest.approx(0.2)


def test_a_step_lasts_from_one_updates_end_to_the_nexts(idle: Any, tmp_path: Path) -> None:
    def line(step: int, kind: str, time: float, **metrics: float) -> str:
        named = {f"time/{name}": value for name, value in metrics.items()}
        return json.dumps({"step": step, "kind": kind, "time": time, "metrics": named})

    lines = []
    for step, (played, end, learned) in enumerate([(1.0, 10.0, 4.0), (2.0, 13.0, 1.5), (3.0, 17.5, 2.5)]):
        lines.append(line(step, "rollout", end - learned, rollout_seconds=played))
        lines.append(line(step, "update", end, update_seconds=learned))
        lines.append(line(step, "validation", end + 0.5, validation_seconds=0.5))
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert idle.read_steps(tmp_path / "metrics.jsonl") == [
        idle.Step(number=1, start=10.0, end=13.0, played=2.0, learned=1.5),
        idle.Step(number=2, start=13.0, end=17.5, played=3.0, learned=2.5),
    ]


def test_the_share_is_of_the_looks_within_and_no_others(idle: Any) -> None:
    looks = [idle.Look(float(time), busy) for time, busy in enumerate([0.0, 1.0, 0.5, 0.25, 0.0])]
    assert idle.idle_share(looks, 1.0, 3.0) == pytest.approx(1 - (1.0 + 0.5 + 0.25) / 3)
    assert idle.idle_share(looks, 0.5, 1.5) == 0.0
    assert idle.idle_share(looks, 3.5, 9.0) == 1.0


def test_a_time_that_was_not_looked_at_is_no_share(idle: Any) -> None:
    with pytest.raises(ValueError, match="nvidia-smi said nothing"):
        idle.idle_share([idle.Look(0.0, 1.0)], 5.0, 6.0)
    with pytest.raises(ValueError, match="nvidia-smi said nothing"):
        idle.idle_share([], 0.0, 1.0)
