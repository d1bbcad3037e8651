"""Whole runs of the embedded model on a GPU: two steps, in both modes and both layouts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.device import DEVICE

ROOT = Path(__file__).parents[2]
RUNS = {
    "sync, shared": {},
    "sync, padded": {"update.shared_prefix": "false"},
    "async, shared": {"run.mode": "async"},
    "async, padded": {"run.mode": "async", "update.shared_prefix": "false"},
    "lora in bfloat16": {"policy.tuning": "lora", "model.dtype": "bfloat16"},
}
FEW = {
    # a reward for even token ids: whatever the model says, members differ
    "rewards": '[{name="tests.run.own_rewards:even_ids"}]',
    "rollout.group_size": "4",
    "rollout.tokens_per_turn": "16",
    "rollout.lockstep": "false",
    "run.tasks_per_step": "2",
    "run.num_steps": "2",
    "evaluation.every": "0",
    "evaluation.is_before_and_after": "false",
    "model.device": DEVICE,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, subprocess.Popen[str]]]]:
    """All at once: most of their time goes into starting servers."""
    folder = tmp_path_factory.mktemp("runs")
    started = {}
    for number, (name, keys) in enumerate(RUNS.items()):
        settings = FEW | keys | {"run.folder": str(folder), "run.name": str(number)}
        sets = [f"--set={key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "turnwise", "train", "recipes/cpu.toml", *sets]
        started[name] = folder / str(number), subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    yield started
    for _, process in started.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", RUNS)
def test_two_steps_change_the_policy_and_agree_with_the_sampler(
    name: str, runs: dict[str, tuple[Path, subprocess.Popen[str]]]
) -> None:
    folder, process = runs[name]
    said, _ = process.communicate(timeout=180)
    assert process.returncode == 0, said[-3000:]
    [metrics] = folder.parent.glob(f"{folder.name}*/metrics.jsonl")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    updates = [line["metrics"] for line in lines if line["kind"] == "update"]
    assert len(updates) == 2
    for each in updates:
        assert each["gradient/norm"] > 0
        assert each["kl/sampler"] < (1e-2 if "bfloat16" in name else 1e-3)
