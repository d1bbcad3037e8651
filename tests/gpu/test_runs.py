"""Whole runs of the embedded model on a GPU: two steps in both modes and both layouts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    # a reward for even token ids: the rewards of members differ for any output
    "rewards": '[{name="tests.run.own_rewards:even_ids"}]',
    "rollout.group_size": "4",
    "rollout.tokens_per_turn": "16",
    "rollout.lockstep": "false",
    "run.tasks_per_step": "2",
    "run.num_steps": "2",
    "evaluation.every": "0",
    "evaluation.before_and_after": "false",
    "model.device": DEVICE,
}

TIMEOUT = 300
"""Seconds for all runs together; on a GPU they take a fraction of it."""


@dataclass(frozen=True, slots=True)
class Started:
    """A run in a separate process."""

    folder: Path
    log: Path
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Started]]:
    """All runs at once: most of their time is the start of servers."""
    root = tmp_path_factory.mktemp("runs")
    started = {name: start(root / f"run{number}", keys) for number, (name, keys) in enumerate(RUNS.items())}
    yield started
    for run in started.values():
        run.process.kill()
        run.process.wait()


def start(folder: Path, keys: dict[str, str]) -> Started:
    settings = FEW | keys | {"run.folder": str(folder.parent), "run.name": folder.name}
    sets = [f"--set={key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "turnwise", "train", "recipes/cpu.toml", *sets]
    paths = [str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    log = folder.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    return Started(folder, log, process)


def finished(run: Started) -> list[dict[str, Any]]:
    """The lines of metrics of a completed run."""
    assert run.process.wait(timeout=TIMEOUT) == 0, run.log.read_text()[-3000:]
    [metrics] = run.folder.parent.glob(f"{run.folder.name}*/metrics.jsonl")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


@pytest.mark.parametrize("name", RUNS)
def test_two_steps_change_the_policy_and_agree_with_the_sampler(name: str, runs: dict[str, Started]) -> None:
    updates = [line["metrics"] for line in finished(runs[name]) if line["kind"] == "update"]
    assert len(updates) == 2
    for update in updates:
        assert update["gradient/norm"] > 0
        # asynchronous samples may be of weights that are one update old
        assert update["kl/sampler"] < (5e-2 if "async" in name or "bfloat16" in name else 1e-3)


@pytest.mark.skipif(DEVICE != "cuda", reason="only an NVIDIA GPU has these metrics")
def test_the_metrics_of_a_step_include_utilisation_temperature_and_power(runs: dict[str, Started]) -> None:
    run = next(iter(runs.values()))
    found = [line["metrics"] for line in finished(run) if "gpu/power_watts" in line["metrics"]]
    assert found, run.log.read_text()[-3000:]
    for metrics in found:
        assert 0 <= metrics["gpu/utilization"] <= 1
        assert 15 < metrics["gpu/temperature_celsius"] < 110
        assert 20 < metrics["gpu/power_watts"] < 1500
