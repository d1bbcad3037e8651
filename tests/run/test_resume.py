"""A run that is killed again and again ends, bit for bit, where an unbroken one does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import warm
from turnwise.rollout.store import read_episodes
from turnwise.tracking.folder import RunFolder
from turnwise.training.update import checkpoint

RESUMING = Path(__file__).with_name("resuming.py")
COMMON = {
    "run": {"num_steps": 3, "tasks_per_step": 2, "checkpoint_every": 1},
    "rollout": {"group_size": 3, "tokens_per_turn": 12, "lockstep": True, "num_parallel_episodes": 5},
    "curriculum": {"kind": "success", "threshold": 0.2},
    "evaluation": {"every": 2, "num_samples": 1, "before_and_after": False},
    "update": {"num_minibatches": 2},
}
PPO = {  # the value head, a moving reference, an adaptive coefficient
    **COMMON,
    "algorithm": {
        "advantage": "gae",
        "lam": 0.95,
        "kl": {"placement": "reward", "coefficient": 0.01, "target": 0.001},
    },
    "reference": {"kind": "ema", "decay": 0.5},
}
FULL = {  # every parameter, a copied reference, a schedule, imitation off
    **COMMON,
    "policy": {"tuning": "full"},
    "algorithm": {"advantage": "grpo", "kl": {"placement": "loss_k3", "coefficient": 0.05}},
    "reference": {"kind": "hard", "every": 2},
    "optimizer": {"learning_rate": 5e-3, "schedule": "cosine", "warmup_steps": 1, "weight_decay": 0.1},
}
USERS = {**PPO, "user": {"model": "model"}}  # a second engine, which plays the users
KILLS = (
    "collection:3",  # in the first step, with no checkpoint yet
    "update:4",  # in the second step, when one of its two optimizer steps is done
    "save:2:30",  # before the checkpoint has its name
    "save:3:110",  # after
)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def figures(folder: RunFolder) -> list[dict[str, Any]]:
    """All but what a clock, or the machine, has measured."""
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    measured = ("time/", "memory/", "tools/seconds", "rollout/tokens_per_second")
    return [
        {
            "step": line["step"],
            "kind": line["kind"],
            "histograms": line.get("histograms"),
            "metrics": {
                name: value for name, value in line["metrics"].items() if not name.startswith(measured)
            },
        }
        for line in lines
    ]


def episodes(file: Path) -> dict[str, Any]:
    return {
        played.trajectory.episode_id: (
            played.trajectory.token_ids,
            played.trajectory.logprobs,
            [result.content for _, result in played.trajectory.calls],
            [turn.user for turn in played.trajectory.turns],
            played.reward,
        )
        for played in read_episodes(file)
    }


@pytest.mark.parametrize(
    "settings",
    [PPO, pytest.param(FULL, marks=pytest.mark.slow), pytest.param(USERS, marks=pytest.mark.slow)],
    ids=["ppo", "full", "users"],
)
def test_killed_in_collections_updates_and_saves_it_ends_as_if_it_never_was(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    command = [warm.heavy(), str(RESUMING), str(tmp_path), json.dumps(settings), *KILLS, "whole"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr
    unbroken, broken = [RunFolder.read(tmp_path / name / "runs" / "run") for name in ("unbroken", "broken")]

    last, resumed = [checkpoint.latest(folder.checkpoints) for folder in (unbroken, broken)]
    assert last is not None
    assert resumed is not None
    assert last.step == resumed.step == 3
    assert last.tensors.keys() == resumed.tensors.keys()
    assert {name.partition("/")[0] for name in last.tensors} >= {"policy", "optimizer", "reference"}
    differing = [name for name, tensor in last.tensors.items() if bits(tensor) != bits(resumed.tensors[name])]
    assert differing == []
    assert last.facts == resumed.facts
    assert last.facts["standing"]["curriculum"]["level"] > 0, "the curriculum never moved"
    assert last.facts["trainer"]["version"] == 3, "an update was skipped"

    assert figures(unbroken) == figures(broken)
    for step in range(3):
        assert episodes(unbroken.trajectories(step)) == episodes(broken.trajectories(step))
        assert unbroken.tokens(step).read_bytes() == broken.tokens(step).read_bytes()
    assert any(
        calls for step in range(3) for _, _, calls, _, _ in episodes(broken.trajectories(step)).values()
    )
    for folder in (unbroken, broken):
        assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-000002", "step-000003"]
