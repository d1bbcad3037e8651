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


def test_every_difference_between_two_runs_but_their_times_is_found(tmp_path: Path) -> None:
    missing, doubled = run(tmp_path, "missing"), run(tmp_path, "doubled")
    (missing / "trajectories" / "step-000000.jsonl").unlink()
    episodes = doubled / "trajectories" / "step-000000.jsonl"
    episodes.write_text(episodes.read_text() * 2)
    for other, expected in (
        (run(tmp_path, "later", at=2.0), []),
        (run(tmp_path, "b", weight=b"v"), ["checkpoints/step-000001/tensors.safetensors differs"]),
        (run(tmp_path, "c", reward=0.0), ["trajectories/step-000000.jsonl differs"]),
        (run(tmp_path, "d", loss=0.25), ["metrics.jsonl differs"]),
        (missing, ["trajectories/step-000000.jsonl differs"]),
        (doubled, ["trajectories/step-000000.jsonl differs"]),
    ):
        unbroken = run(tmp_path, f"unbroken-{other.name}")
        assert list(kills.differences(unbroken, other)) == expected
