"""A run that is killed again and again ends, bit for bit, where an unbroken one does."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import warm
from tests.rollout.stage import task
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import read_episodes
from turnwise.tasks.load import save
from turnwise.training.update import checkpoint
from turnwise.types import Difficulty, ModelUser, Task

RESUMING = Path(__file__).with_name("resuming.py")
COMMON = {
    "run": {"num_steps": 3, "tasks_per_step": 2, "checkpoint_every": 1},
    "rollout": {"group_size": 3, "tokens_per_turn": 12, "lockstep": True, "num_parallel_episodes": 5},
    "curriculum": {"kind": "success", "threshold": 0.2},
    "evaluation": {"every": 2, "num_samples": 1, "before_and_after": False},
    "update": {"num_minibatches": 2},
}
PPO = {  # the value head, a moving reference, an adaptive coefficient, tasks by learnability
    **COMMON,
    "curriculum": {"kind": "learnability"},
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
LEVELS = (Difficulty.EASY, Difficulty.MEDIUM, Difficulty.HARD)
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


def play_unbroken_and_broken(
    folder: Path, settings: dict[str, Any], tasks: Sequence[Task], kills: Sequence[str]
) -> tuple[RunFolder, RunFolder]:
    save(tasks, folder / "tasks.jsonl")
    arguments = [str(folder), json.dumps(settings), str(folder / "tasks.jsonl"), *kills, "whole"]
    command = [warm.heavy(), str(RESUMING), *arguments]
    played = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert played.returncode == 0, played.stderr
    unbroken, broken = [RunFolder.read(folder / name / "runs" / "run") for name in ("unbroken", "broken")]
    return unbroken, broken


def check_identical(unbroken: RunFolder, broken: RunFolder, num_steps: int) -> checkpoint.Checkpoint:
    """Compare weights, figures and episodes bit for bit; return the last checkpoint."""
    last, resumed = [checkpoint.latest(folder.checkpoints) for folder in (unbroken, broken)]
    assert last is not None
    assert resumed is not None
    assert last.step == resumed.step == num_steps
    assert last.tensors.keys() == resumed.tensors.keys()
    differing = [name for name, tensor in last.tensors.items() if bits(tensor) != bits(resumed.tensors[name])]
    assert differing == []
    assert last.facts == resumed.facts
    assert last.facts["trainer"]["version"] == num_steps, "an update was skipped"
    assert unbroken.recipe.sizes == broken.recipe.sizes
    assert not broken.recipe.lacks_sizes
    assert figures(unbroken) == figures(broken)
    for step in range(num_steps):
        assert episodes(unbroken.trajectories(step)) == episodes(broken.trajectories(step))
        assert unbroken.tokens(step).read_bytes() == broken.tokens(step).read_bytes()
    return last


@pytest.mark.parametrize(
    "settings",
    [PPO, pytest.param(FULL, marks=pytest.mark.slow), pytest.param(USERS, marks=pytest.mark.slow)],
    ids=["ppo", "full", "users"],
)
def test_killed_in_collections_updates_and_saves_it_ends_as_if_it_never_was(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    user = ModelUser("Ann", "Have it written.", 1) if "user" in settings else None
    tasks = [task(f"train{n}", difficulty=LEVELS[n % 3], max_turns=3, user=user) for n in range(12)]
    unbroken, broken = play_unbroken_and_broken(tmp_path, settings, tasks, KILLS)
    last = check_identical(unbroken, broken, 3)
    assert {name.partition("/")[0] for name in last.tensors} >= {"policy", "optimizer", "reference"}
    assert last.facts["standing"]["validation_record"].keys() == {"held0", "held1"}
    curriculum = last.facts["standing"]["curriculum"]
    if settings["curriculum"]["kind"] == "success":
        assert curriculum["level"] > 0, "the curriculum never moved"
    assert {step for groups in curriculum["record"].values() for step, *_ in groups} == {0, 1, 2}
    played = [one for step in range(3) for one in episodes(broken.trajectories(step)).values()]
    assert any(calls for _, _, calls, _, _ in played)
    for folder in (unbroken, broken):
        assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-000002", "step-000003"]
