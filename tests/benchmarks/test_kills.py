"""Two runs are compared by everything but what a clock measured."""

import json
from pathlib import Path

from tests.benchmarks.loading import loaded

kills = loaded("kills")


def run(
    root: Path, name: str, *, weight: bytes = b"w", reward: float = 1.0, loss: float = 0.5, at: float = 1.0
) -> Path:
    folder = root / name
    for part in ("checkpoints/step-000001", "tokens", "trajectories"):
        (folder / part).mkdir(parents=True)
    (folder / "checkpoints" / "step-000001" / "tensors.safetensors").write_bytes(weight)
    (folder / "tokens" / "step-000000.jsonl").write_text("{}\n")
    episode = {"kind": "trajectory", "reward": {"total": reward}, "trajectory": {"seconds": at}}
    (folder / "trajectories" / "step-000000.jsonl").write_text(json.dumps(episode) + "\n")
    figures = {"loss": loss, "time/update_seconds": at, "memory/resident_gib": at}
    line = {"step": 0, "kind": "update", "time": at, "metrics": figures}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    return folder


def test_runs_that_differ_in_times_alone_are_equal(tmp_path: Path) -> None:
    assert list(kills.differences(run(tmp_path, "a"), run(tmp_path, "b", at=2.0))) == []


def test_a_changed_weight_score_or_figure_is_a_difference(tmp_path: Path) -> None:
    unbroken = run(tmp_path, "a")
    differing = {
        "checkpoints/step-000001/tensors.safetensors differs": run(tmp_path, "b", weight=b"v"),
        "trajectories/step-000000.jsonl differs": run(tmp_path, "c", reward=0.0),
        "metrics.jsonl differs": run(tmp_path, "d", loss=0.25),
    }
    for words, killed in differing.items():
        assert list(kills.differences(unbroken, killed)) == [words]


def test_a_step_that_is_missing_or_written_twice_is_a_difference(tmp_path: Path) -> None:
    unbroken, missing, doubled = (run(tmp_path, name) for name in "abc")
    (missing / "trajectories" / "step-000000.jsonl").unlink()
    assert list(kills.differences(unbroken, missing)) == ["trajectories/step-000000.jsonl differs"]
    episodes = doubled / "trajectories" / "step-000000.jsonl"
    episodes.write_text(episodes.read_text() * 2)
    assert list(kills.differences(unbroken, doubled)) == ["trajectories/step-000000.jsonl differs"]
