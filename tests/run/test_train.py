"""A whole run, small: real servers, a real engine, real updates; what it keeps and how it stops."""

import asyncio
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from rich.console import Console

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import NOTEBOOK, task
from tests.run.stage import recipe, write_recipe
from tests.setup.resolved import resolved
from tests.shown import shown_task
from turnwise.config import Recipe, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed
from turnwise.rollout.store import read_episodes
from turnwise.run.loop import RunEnd, train
from turnwise.run.screen.screen import Screen
from turnwise.run.start_up import open_run
from turnwise.run.training_run import TrainingRun
from turnwise.system.stopping import Stopping
from turnwise.tasks.load import save
from turnwise.training.packing.samples import Sample
from turnwise.training.update import checkpoint
from turnwise.types import Reward, Trajectory, Truth
from turnwise.types.protocols import RewardDown

UNMEASURED: dict[str, Any] = {"evaluation": {"before_and_after": False}}
UNREFILLED: dict[str, Any] = {"rollout": {"dynamic_sampling": False}}


def run_it(
    settings: Recipe, prepare: Callable[[TrainingRun], None] | None = None, *, is_resumed: bool = False
) -> tuple[RunEnd, RunFolder]:
    """Train to the end; `prepare` may change the run before its first step."""

    async def go() -> tuple[RunEnd, RunFolder]:
        root, name = settings.run.folder, settings.run.name
        opened = (
            RunFolder.open(root / name)
            if is_resumed
            else RunFolder.create(root, name, settings, is_dated=False)
        )
        with opened as folder:
            screen = Screen(Console(quiet=True), settings.run)
            async with nothing_leaks(), open_run(resolved(settings), folder, screen) as run:
                if prepare is not None:
                    prepare(run)
                return await train(run, Stopping()), folder

    return asyncio.run(go())


def before_update(
    change: Callable[[Sequence[Sample], int], Sequence[Sample]],
) -> Callable[[TrainingRun], None]:
    """For `run_it`: every update learns from what `change(samples, step)` returns."""

    def prepare(run: TrainingRun) -> None:
        trainer: Any = run.trainer
        update = trainer.update
        trainer.update = lambda samples, **more: update(change(samples, more["step"]), **more)

    return prepare


def lines(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]


def test_a_run_keeps_its_recipe_figures_episodes_checkpoints_and_evaluations(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path, evaluation={"every": 2, "num_samples": 2}, run={"checkpoint_every": 1}, **UNREFILLED
    )
    ended, folder = run_it(settings)
    assert ended.why == ""
    assert folder.recipe == settings
    for kind in ("rollout", "update"):
        assert [line["step"] for line in lines(folder, kind)] == [0, 1, 2]
    for figures in (line["metrics"] for line in lines(folder, "update")):
        assert figures["sampler/max_abs_difference"] < 1e-4, "engine and trainer differ: stale weights"
        assert figures["tokens/alignment"] == 1.0
        assert figures["ratio/mean"] == 1.0
        assert figures["gradient/norm"] > 0
    publishing = [line["metrics"]["time/publish_seconds"] for line in lines(folder, "update")]
    assert all(seconds > 0 for seconds in publishing)
    assert len(set(publishing)) == 3, "every step's own, not the one before the first"
    for step in range(3):
        episodes = list(read_episodes(folder.trajectories(step)))
        assert len(episodes) == 6
        assert {played.step for played in episodes} == {step}
        versions = {turn.completion.policy_version for played in episodes for turn in played.trajectory.turns}
        assert versions == {step}, "each step is sampled from the weights of the step before"
        traced = {
            row["episode"]: row for row in map(json.loads, folder.tokens(step).read_text().splitlines())
        }
        own = {played.trajectory.episode_id: sum(played.trajectory.loss_mask) for played in episodes}
        assert {episode: row["num_tokens"] for episode, row in traced.items()} == own
        advantages = [row["advantage"] for row in traced.values()]
        assert min(advantages) < 0 < max(advantages)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-000002", "step-000003"]
    names = sorted(path.name for path in folder.evaluations.glob("*.json"))
    assert names == ["after.json", "before.json", "step-000002.json", "step-000003.json"]
    for validation in lines(folder, "validation"):
        assert validation["metrics"]["validation/success"] == 0.0


def test_the_alignment_alarm_names_the_first_token_that_does_not_match(tmp_path: Path) -> None:
    def shift(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        return [replace(sample, token_ids=(*sample.token_ids[1:], sample.token_ids[0])) for sample in samples]

    ended, folder = run_it(recipe(tmp_path, **UNMEASURED), before_update(shift))
    assert ended.halted_by == "alignment"
    found = re.search(r"first at token (\d+) \((.*)\), position (\d+) of episode (\S+), turn 1", ended.why)
    assert found is not None, ended.why
    [named] = [
        played.trajectory
        for played in read_episodes(folder.trajectories(0))
        if played.trajectory.episode_id == found[4]
    ]
    assert [*named.token_ids[1:], named.token_ids[0]][int(found[3])] == int(found[1])


def flat(trajectory: Trajectory) -> float:
    """The same for all: nothing can be learned from it."""
    return 0.5


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_step_whose_groups_are_all_flat_says_so_and_what_is_left_to_try(
    tmp_path: Path, is_dynamic: bool
) -> None:
    rollout = {"dynamic_sampling": is_dynamic}
    file = write_recipe(tmp_path, run={"num_steps": 1}, rollout=rollout, **UNMEASURED)
    file.write_text(file.read_text().replace("tests.run.own_rewards:even_ids", f"{__name__}:flat"))
    _, folder = run_it(read_recipe(file))
    log = (folder.path / "training.log").read_text()
    assert "no learnable token" not in log
    no_update = re.search(r"step 1: no update: in each of the \d+ groups all rewards were equal", log)
    assert bool(no_update) == is_dynamic, "without dynamic sampling an update of advantages 0 is made"
    assert "zero_variance: groups/zero_variance_fraction is 1" in log
    assert ("turn on rollout.dynamic_sampling" in log) != is_dynamic
    assert ("raise rollout.max_draws" in log) == is_dynamic


def test_the_reward_that_is_paid_is_what_rises(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path,
        run={"num_steps": 12, "tasks_per_step": 4},
        rollout={"group_size": 8, "tokens_per_turn": 12},
        policy={"tuning": "full"},
        **UNMEASURED,
    )
    _, folder = run_it(settings)
    rewards = [line["metrics"]["reward/mean"] for line in lines(folder, "rollout")]
    assert math.fsum(rewards[-3:]) / 3 > math.fsum(rewards[:3]) / 3 + 0.1


def test_a_failed_update_hides_nothing_of_what_was_played(tmp_path: Path) -> None:
    def fail(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        if step == 1:
            raise RuntimeError("the device is gone")
        return samples

    with pytest.raises(RuntimeError, match="the device is gone"):
        run_it(recipe(tmp_path, **UNMEASURED, **UNREFILLED), before_update(fail))
    folder = RunFolder.read(tmp_path / "runs" / "run")
    assert [line["step"] for line in lines(folder, "rollout")] == [0, 1]
    assert [line["step"] for line in lines(folder, "update")] == [0]
    assert len(list(read_episodes(folder.trajectories(1)))) == 6


def test_an_alarm_of_roll_back_restores_the_checkpoint_before_at_half_the_rate(tmp_path: Path) -> None:
    health = {"roll_back": ["truncation"]}  # raised at every step, as no episode can end in 12 tokens
    run = {"checkpoint_every": 1, "keep_checkpoints": 3}
    settings = recipe(tmp_path, health=health, run=run, **UNMEASURED, **UNREFILLED)
    _, folder = run_it(settings)
    paths = [checkpoint.at_step(folder.checkpoints, step) for step in (1, 2, 3)]
    first, second, third = [checkpoint.load(path) for path in paths if path is not None]
    for name, tensor in first.tensors.items():
        assert torch.equal(second.tensors[name], tensor), name
        assert torch.equal(third.tensors[name], tensor), name
    rates = [line["metrics"]["learning_rate"] for line in lines(folder, "update")]
    assert rates == pytest.approx([1e-2, 1e-2, 5e-3]), "nothing to go back to after the first step"
    assert (third.facts["trainer"]["rate_scale"], third.facts["trainer"]["version"]) == (0.25, 5)
    versions = {
        turn.completion.policy_version
        for played in read_episodes(folder.trajectories(2))
        for turn in played.trajectory.turns
    }
    assert versions == {3}, "two updates and the return"
    run_it(settings, is_resumed=True)
    again = checkpoint.latest(folder.checkpoints)
    assert again is not None
    assert again.facts["trainer"] == third.facts["trainer"]


def test_the_breaker_of_a_server_that_dies_for_good_is_in_the_figures(tmp_path: Path) -> None:
    settings = recipe(tmp_path, run={"checkpoint_every": 100}, **UNMEASURED)
    server = tmp_path / "server.py"
    server.write_text(f"import runpy\nrunpy.run_path({str(NOTEBOOK)!r}, run_name='__main__')\n")
    options = {"isolation": "process", "num_warm": 0, "breaker_failures": 2, "breaker_seconds": 60}
    options |= {"patience_seconds": 0}
    block = {"command": sys.executable, "args": [str(server)], "turnwise": options}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))

    def break_it(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        server.write_text("raise SystemExit(1)\n")
        return samples

    with pytest.raises(CollectionFailed, match="notebook"):
        run_it(settings, before_update(break_it))
    folder = RunFolder.read(tmp_path / "runs" / "run")
    [played] = lines(folder, "rollout")
    names = ("breaker/open/notebook", "breaker/openings/notebook")
    assert [played["metrics"][name] for name in names] == [0.0, 0.0]
    [lost] = lines(folder, "lost")
    assert (lost["step"], [lost["metrics"][name] for name in names]) == (1, [1.0, 1.0])


def test_collecting_ahead_is_stale_by_no_more_than_allowed_and_corrected(tmp_path: Path) -> None:
    ahead = {"num_steps": 4, "mode": "async", "max_staleness": 1}
    _, folder = run_it(recipe(tmp_path, run=ahead, rollout={"lockstep": False}, **UNMEASURED))
    updates = [line["metrics"] for line in lines(folder, "update")]
    assert max(figures["staleness/max"] for figures in updates) == 1, "it collects ahead, by one step"
    # a version apart, so μ is not π_old, and the correction weighs by their ratio
    assert max(figures["sampler/max_abs_difference"] for figures in updates) > 1e-4


def test_training_at_temperature_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rollout\.temperature is 0"):
        run_it(recipe(tmp_path, rollout={"temperature": 0.0}))


@pytest.mark.parametrize("every", [0, 1], ids=["while collecting", "while validating"])
def test_a_collection_that_fails_loses_nothing_that_was_learned(tmp_path: Path, every: int) -> None:
    class Down:
        """Scores the six episodes of the first step and no more."""

        def __init__(self, rewards: Any) -> None:
            self._rewards = rewards
            self._num_left = 6

        async def score(self, trajectory: Trajectory) -> Reward:
            self._num_left -= 1
            if self._num_left < 0:
                raise RewardDown("the judge does not answer")
            reward: Reward = await self._rewards.score(trajectory)
            return reward

    def prepare(run: TrainingRun) -> None:
        run.bench = replace(run.bench, rewards=cast("Rewards", Down(run.bench.rewards)))

    evaluation = {"before_and_after": False, "every": every}
    settings = recipe(tmp_path, run={"num_steps": 2, "checkpoint_every": 100}, evaluation=evaluation)
    with pytest.raises(CollectionFailed, match="the judge does not answer"):
        run_it(settings, prepare)
    found = checkpoint.latest(settings.run.folder / "run" / "checkpoints")
    assert found is not None
    assert found.facts["standing"]["next_step"] == 1
    ended, _ = run_it(settings, is_resumed=True)
    assert ended.progress.next_step == 2


def test_only_demonstrations_that_earn_their_outcome_are_imitated(tmp_path: Path) -> None:
    imitation = {"weight": 0.1, "num_steps": 2}
    settings = recipe(tmp_path, rollout={"tokens_per_turn": 100}, imitation=imitation, **UNMEASURED)
    save(
        [shown_task("wrong", name="wrong"), task("bare"), shown_task(name="right")], tmp_path / "train.jsonl"
    )
    learned: list[tuple[int, list[str]]] = []

    def watch(run: TrainingRun) -> None:
        trainer: Any = run.trainer
        update = trainer.update

        def noted(samples: Sequence[Sample], *, step: int, imitation: Sequence[Sample]) -> Any:
            learned.append((step, [sample.task_id for sample in imitation]))
            return update(samples, step=step, imitation=imitation)

        trainer.update = noted

    run_it(settings, watch)
    assert learned == [(0, ["right"] * 16), (1, ["right"] * 16), (2, [])]
    save([shown_task("wrong", name="wrong"), task("bare")], tmp_path / "train.jsonl")
    with pytest.raises(ValueError, match=r"imitation\.weight: no demonstration .* answered, without success"):
        run_it(settings.model_copy(update={"run": settings.run.model_copy(update={"name": "again"})}))


def test_tasks_that_only_the_users_own_rewards_score_can_be_measured(tmp_path: Path) -> None:
    settings = recipe(tmp_path, run={"num_steps": 1})
    save([replace(task(f"free{n}"), truth=Truth()) for n in range(4)], tmp_path / "train.jsonl")
    save([replace(task("held"), truth=Truth())], tmp_path / "test.jsonl")
    ended, _ = run_it(settings)
    assert ended.before is not None
    assert len(ended.before.episodes) == 2
