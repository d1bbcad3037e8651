"""A whole run, small: real servers, a real engine, real updates; what it keeps and how it stops."""

import asyncio
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import NOTEBOOK, task
from tests.run.stage import recipe, write_recipe
from tests.shown import shown_task
from turnwise.config import Recipe, load_recipe
from turnwise.protocols import RewardDown
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed
from turnwise.rollout.store import read_episodes
from turnwise.run.loop import RunEnd, train
from turnwise.run.screen import Screen
from turnwise.run.stopping import Stopping
from turnwise.run.training_run import TrainingRun, open_run
from turnwise.tasks.load import save
from turnwise.tracking.folder import RunFolder
from turnwise.training.packing.samples import Sample
from turnwise.training.update import checkpoint
from turnwise.training.update.trainer import StepResult
from turnwise.types import Reward, Trajectory, Truth


class Wrapped:
    """A trainer that does something of the test's own at an update."""

    def __init__(self, trainer: Any, before: Any) -> None:
        self._trainer = trainer
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def update(self, samples: Sequence[Sample], **options: Any) -> StepResult:
        samples = self._before(samples, options["step"])
        result: StepResult = self._trainer.update(samples, **options)
        return result


def run_it(
    settings: Recipe, before: Any = None, stopping: Stopping | None = None, *, is_resumed: bool = False
) -> tuple[RunEnd, RunFolder]:
    async def go() -> tuple[RunEnd, RunFolder]:
        path = settings.run.folder / settings.run.name
        opened = (
            RunFolder.open(path)
            if is_resumed
            else RunFolder.create(settings.run.folder, settings.run.name, settings, is_dated=False)
        )
        screen = Screen(Console(quiet=True), settings)
        with opened as folder:
            async with nothing_leaks(), open_run(settings, folder, screen) as opened_run:
                run, trainer = opened_run, opened_run.trainer
                if before is not None:
                    wrapped: Any = Wrapped(trainer, before)
                    run = TrainingRun(
                        settings, folder, run.bench, wrapped, run.train_tasks, run.lessons, screen
                    )
                return await train(run, stopping or Stopping()), folder

    return asyncio.run(go())


def lines(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]


def test_a_run_keeps_its_recipe_figures_episodes_checkpoints_and_evaluations(tmp_path: Path) -> None:
    settings = recipe(tmp_path, evaluation={"every": 2, "num_samples": 2}, run={"checkpoint_every": 1})
    ended, folder = run_it(settings)
    assert ended.why == ""
    assert folder.recipe == settings
    for kind in ("rollout", "update"):
        assert [line["step"] for line in lines(folder, kind)] == [0, 1, 2]
    publishing = [line["metrics"]["time/publish_seconds"] for line in lines(folder, "update")]
    assert all(seconds > 0 for seconds in publishing)
    assert len(set(publishing)) == 3, "each step's own, not the one before the first"
    for step in range(3):
        episodes = list(read_episodes(folder.trajectories(step)))
        assert len(episodes) == 6
        assert {played.step for played in episodes} == {step}
        versions = {turn.completion.policy_version for played in episodes for turn in played.trajectory.turns}
        assert versions == {step}, "each step is sampled from the weights of the step before"
        traced = [json.loads(line) for line in folder.tokens(step).read_text().splitlines()]
        own = {played.trajectory.episode_id: sum(played.trajectory.loss_mask) for played in episodes}
        assert {line["episode"]: line["num_tokens"] for line in traced} == own
        rewards = {played.trajectory.episode_id: played.reward.total for played in episodes}
        best, worst = max(traced, key=lambda line: line["advantage"]), min(rewards, key=rewards.__getitem__)
        assert best["advantage"] > 0
        assert next(line for line in traced if line["episode"] == worst)["advantage"] < 0
    kept = sorted(path.name for path in folder.checkpoints.iterdir())
    assert kept == ["step-000002", "step-000003"]
    names = sorted(path.name for path in folder.evaluations.glob("*.json"))
    assert names == ["after.json", "before.json", "step-000002.json"]
    [validation] = lines(folder, "validation")
    assert validation["metrics"]["validation/success"] == 0.0


def test_what_is_sampled_is_what_is_trained_at_every_step(tmp_path: Path) -> None:
    _, folder = run_it(recipe(tmp_path, run={"num_steps": 3}))
    for line in lines(folder, "update"):
        figures = line["metrics"]
        assert figures["sampler/max_abs_difference"] < 1e-4, "engine and trainer differ: stale weights"
        assert figures["tokens/alignment"] == 1.0
        assert figures["ratio/mean"] == 1.0
        assert figures["gradient/norm"] > 0


def test_the_alignment_alarm_names_the_first_token_that_does_not_match(tmp_path: Path) -> None:
    def shift(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        return [replace(sample, token_ids=(*sample.token_ids[1:], sample.token_ids[0])) for sample in samples]

    ended, folder = run_it(recipe(tmp_path, evaluation={"before_and_after": False}), shift)
    assert ended.halted_by == "alignment"
    episodes = {
        played.trajectory.episode_id: played.trajectory for played in read_episodes(folder.trajectories(0))
    }
    found = re.search(r"first at token (\d+) \((.*)\), position (\d+) of episode (\S+), turn 1", ended.why)
    assert found is not None, ended.why
    shifted = [*episodes[found[4]].token_ids[1:], episodes[found[4]].token_ids[0]]
    assert shifted[int(found[3])] == int(found[1])


def flat(trajectory: Trajectory) -> float:
    """The same for all: nothing can be learned from it."""
    return 0.5


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_step_whose_groups_are_all_flat_says_so_and_what_is_left_to_try(
    tmp_path: Path, is_dynamic: bool
) -> None:
    file = write_recipe(
        tmp_path,
        run={"num_steps": 1},
        rollout={"dynamic_sampling": is_dynamic},
        evaluation={"before_and_after": False},
    )
    file.write_text(file.read_text().replace("tests.run.own_rewards:even_ids", f"{__name__}:flat"))
    _, folder = run_it(load_recipe(file))
    log = (folder.path / "training.log").read_text()
    assert "no learnable token" not in log
    is_said = (
        re.search(r"step 1: no update: in each of the \d+ groups all rewards were equal", log) is not None
    )
    assert is_said == is_dynamic, "without dynamic sampling an update of advantages 0 is made"
    assert "zero_variance: groups/zero_variance_fraction is 1" in log
    assert ("turn on rollout.dynamic_sampling" in log) != is_dynamic
    assert ("raise rollout.max_draws" in log) == is_dynamic


def test_the_reward_that_is_paid_is_what_rises(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path,
        run={"num_steps": 12, "tasks_per_step": 4},
        rollout={"group_size": 8, "tokens_per_turn": 12},
        policy={"tuning": "full"},
        optimizer={"learning_rate": 1e-2},
        evaluation={"before_and_after": False},
    )
    _, folder = run_it(settings)
    rewards = [line["metrics"]["reward/mean"] for line in lines(folder, "rollout")]
    assert math.fsum(rewards[-3:]) / 3 > math.fsum(rewards[:3]) / 3 + 0.15


def test_a_failed_update_hides_nothing_of_what_was_played(tmp_path: Path) -> None:
    def fail(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        if step == 1:
            raise RuntimeError("the device is gone")
        return samples

    settings = recipe(tmp_path)
    with pytest.raises(RuntimeError, match="the device is gone"):
        run_it(settings, fail)
    folder = RunFolder.read(settings.run.folder / settings.run.name)
    assert [line["step"] for line in lines(folder, "rollout")] == [0, 1]
    assert [line["step"] for line in lines(folder, "update")] == [0]
    assert len(list(read_episodes(folder.trajectories(1)))) == 6


def test_a_server_that_dies_for_good_is_seen_by_its_breaker_in_the_figures(tmp_path: Path) -> None:
    settings = recipe(tmp_path, evaluation={"before_and_after": False}, run={"checkpoint_every": 100})
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
        run_it(settings, break_it)
    folder = RunFolder.read(settings.run.folder / "run")
    [played] = lines(folder, "rollout")
    names = ("breaker/open/notebook", "breaker/openings/notebook")
    assert [played["metrics"][name] for name in names] == [0.0, 0.0]
    [lost] = lines(folder, "lost")
    assert (lost["step"], [lost["metrics"][name] for name in names]) == (1, [1.0, 1.0])


def test_asking_to_stop_finishes_the_step_saves_and_can_be_gone_on_from(tmp_path: Path) -> None:
    stopping = Stopping()

    def ask(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
        stopping.why = "you asked it to stop" if step == 1 else ""
        return samples

    settings = recipe(tmp_path)
    ended, folder = run_it(settings, ask, stopping)
    assert (ended.why, ended.progress.next_step, ended.after) == ("you asked it to stop", 2, None)
    found = checkpoint.latest(folder.checkpoints)
    assert found is not None
    assert found.step == 2
    ended, folder = run_it(settings, is_resumed=True)
    assert ended.why == ""
    assert ended.after is not None
    assert [line["step"] for line in lines(folder, "update")] == [0, 1, 2]


def test_an_alarm_that_halts_stops_after_a_checkpoint_and_says_why(tmp_path: Path) -> None:
    settings = recipe(tmp_path, health={"halt": ["truncation"]})
    ended, folder = run_it(settings)
    assert "truncation/rate is 1, above 0.3" in ended.why
    assert ended.progress.next_step == 1
    assert checkpoint.latest(folder.checkpoints) is not None
    [update] = lines(folder, "update")
    assert update["alarms"][0]["name"] == "truncation"


def test_collecting_ahead_is_stale_by_no_more_than_allowed_and_corrected(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path, run={"num_steps": 4, "mode": "async", "max_staleness": 1}, rollout={"lockstep": False}
    )
    _, folder = run_it(settings)
    updates = [line["metrics"] for line in lines(folder, "update")]
    assert all(figures["staleness/max"] <= 1 for figures in updates)
    assert any(figures["staleness/max"] == 1 for figures in updates), "it did collect ahead"
    # a version apart, so μ is not π_old, and the correction weighs by their ratio
    assert max(figures["sampler/max_abs_difference"] for figures in updates) > 1e-4


def test_a_learning_rate_of_zero_leaves_every_weight_as_it_was(tmp_path: Path) -> None:
    settings = recipe(tmp_path, optimizer={"learning_rate": 0.0}, run={"num_steps": 2, "checkpoint_every": 1})
    _, folder = run_it(settings)
    first, second = (checkpoint.load(folder.checkpoints / f"step-00000{step}").tensors for step in (1, 2))
    policy = [name for name in first if name.startswith("policy/")]
    assert policy
    assert all(first[name].equal(second[name]) for name in policy)


def test_training_at_temperature_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rollout\.temperature is 0"):
        run_it(recipe(tmp_path, rollout={"temperature": 0.0}))


@pytest.mark.parametrize("every", [0, 1], ids=["while collecting", "while validating"])
def test_a_collection_that_fails_loses_nothing_that_was_learned(tmp_path: Path, every: int) -> None:
    class Down:
        """Pays for the first step's episodes and then no more."""

        def __init__(self, rewards: Any) -> None:
            self._rewards = rewards
            self._num_left = 6

        async def score(self, trajectory: Trajectory) -> Reward:
            self._num_left -= 1
            if self._num_left < 0:
                raise RewardDown("the judge does not answer")
            reward: Reward = await self._rewards.score(trajectory)
            return reward

    settings = recipe(
        tmp_path, run={"checkpoint_every": 100}, evaluation={"before_and_after": False, "every": every}
    )

    async def go() -> None:
        with RunFolder.create(settings.run.folder, "run", settings, is_dated=False) as folder:
            async with open_run(settings, folder, Screen(Console(quiet=True), settings)) as run:
                run.bench = replace(run.bench, rewards=cast("Rewards", Down(run.bench.rewards)))
                await train(run, Stopping())

    with pytest.raises(CollectionFailed, match="the judge does not answer"):
        asyncio.run(go())
    found = checkpoint.latest(settings.run.folder / "run" / "checkpoints")
    assert found is not None
    assert found.facts["standing"]["next_step"] == 1
    ended, _ = run_it(settings, is_resumed=True)
    assert ended.progress.next_step == 3


async def test_only_demonstrations_that_earn_their_outcome_are_imitated(tmp_path: Path) -> None:
    sections = {"imitation": {"weight": 0.1, "num_steps": 2}}
    settings = recipe(tmp_path, rollout={"tokens_per_turn": 100}, **sections)
    tasks = [shown_task("wrong", name="wrong"), task("bare"), shown_task(name="right")]
    save(tasks, tmp_path / "train.jsonl")
    learned: list[tuple[int, list[str]]] = []

    def watch(run: TrainingRun) -> None:
        update = run.trainer.update

        def noted(samples: Sequence[Sample], *, step: int, imitation: Sequence[Sample]) -> StepResult:
            learned.append((step, [sample.task_id for sample in imitation]))
            return update(samples, step=step, imitation=imitation)

        run.trainer.update = noted  # type: ignore[method-assign, assignment]

    with RunFolder.create(settings.run.folder, "run", settings, is_dated=False) as folder:
        async with open_run(settings, folder, Screen(Console(quiet=True), settings)) as run:
            watch(run)
            await train(run, Stopping())
    assert learned == [(0, ["right"] * 16), (1, ["right"] * 16), (2, [])]


def test_imitation_without_a_demonstration_that_works_is_refused(tmp_path: Path) -> None:
    settings = recipe(
        tmp_path, imitation={"weight": 0.1}, rollout={"tokens_per_turn": 100}, run={"tasks_per_step": 1}
    )
    save([shown_task("wrong", name="wrong")], tmp_path / "train.jsonl")
    with pytest.raises(ValueError, match=r"imitation\.weight: no demonstration .* answered, without success"):
        run_it(settings)


def test_tasks_with_the_users_own_rewards_alone_can_be_measured(tmp_path: Path) -> None:
    settings = recipe(tmp_path, run={"num_steps": 1})
    save([replace(task(f"free{n}"), truth=Truth()) for n in range(4)], tmp_path / "train.jsonl")
    save([replace(task("held"), truth=Truth())], tmp_path / "test.jsonl")
    ended, _ = run_it(settings)
    assert ended.before is not None
    assert len(ended.before.episodes) == 2
