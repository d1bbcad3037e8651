"""Idle time of a GPU: the lines of nvidia-smi, the steps of a run, and the share of a time span."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.benchmarks.loading import loaded

idle = loaded("gpu_idle")


def test_readings_have_local_times_and_invalid_lines_are_left_out() -> None:
    text = (
        "2026/11/15 16:12:01.100, 87\n"
        "2026/11/15 16:12:01.200, [Unknown Error]\n"
        "\n"
        "2026/11/15 16:12:01.300, 0\n"
        "2026/11/15 16:12:01.4"  # cut off at the end
    )
    first, last = idle.read_looks(text)
    assert first.time == datetime(2026, 11, 15, 16, 12, 1, 100_000).timestamp()
    assert (first.busy, last.busy) == (0.87, 0.0)
    assert last.time - first.time == pytest.approx(0.2)


def test_a_step_lasts_from_the_end_of_one_update_to_the_next(tmp_path: Path) -> None:
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


def test_the_idle_share_is_that_of_the_readings_within_the_time_span() -> None:
    looks = [idle.Look(float(time), busy) for time, busy in enumerate([0.0, 1.0, 0.5, 0.25, 0.0])]
    assert idle.idle_share(looks, 1.0, 3.0) == pytest.approx(1 - (1.0 + 0.5 + 0.25) / 3)
    assert idle.idle_share(looks, 0.5, 1.5) == 0.0
    assert idle.idle_share(looks, 3.5, 9.0) == 1.0
    with pytest.raises(ValueError, match="nvidia-smi said nothing"):
        idle.idle_share(looks, 5.0, 6.0)
