"""Requirements of training on its tasks: dry run, doctor and training report them in the same words."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rollout.stage import task
from tests.run.stage import recipe
from tests.run.test_train import UNMEASURED, run_it
from tests.setup.resolved import agent, resolved, with_servers
from turnwise.config import Recipe, RewardConfig, override_recipe
from turnwise.run.checks.dry import dry_run, to_check
from turnwise.run.checks.findings import FindingLevel
from turnwise.run.checks.model import check_tasks
from turnwise.run.checks.servers import reach_servers
from turnwise.run.playing import evaluate_agent, play_groups
from turnwise.setup.servers import load_servers
from turnwise.tasks.load import load, save
from turnwise.types import Difficulty, ModelUser, Truth


def found_by_all(settings: Recipe, folder: Path) -> str:
    """The one problem that dry run, doctor and training report before anything is played."""
    [problem] = asyncio.run(dry_run(to_check(settings))).problems
    reached = asyncio.run(reach_servers(load_servers(folder / "mcp.json", variables={})))
    [finding] = check_tasks(with_servers(settings), reached)
    assert finding.level is FindingLevel.BAD
    with pytest.raises(ValueError, match=r"task|tasks") as caught:
        run_it(settings)
    assert not list(folder.glob("runs/*/trajectories/*")), "nothing was played"
    # A check of files begins with file and row, a run with the task; the rest is the same.
    for said in (problem, finding.detail):
        assert str(caught.value).split(": ", 1)[-1] in said
    return problem


@pytest.fixture
def settings(tmp_path: Path) -> Recipe:
    """Six tasks, two a step, and the default reward."""
    made = recipe(tmp_path, **UNMEASURED)
    tasks = made.tasks.model_copy(update={"validation": None, "test": None})
    return made.model_copy(update={"rewards": (RewardConfig(name="outcome"),), "tasks": tasks})


def test_a_truth_that_asks_for_nothing_is_refused_before_anything_is_played(
    settings: Recipe, tmp_path: Path
) -> None:
    file = tmp_path / "train.jsonl"
    *sound, last = load(file)
    save([*sound, replace(last, truth=Truth(rubric="Be brief."))], file)
    assert "add answer, writes, probes" in found_by_all(settings, tmp_path)
    for playing in (
        play_groups(resolved(settings), num_tasks=9, out=tmp_path / "out.jsonl", num_shown=0),
        evaluate_agent(agent(settings, load(file)), out=tmp_path / "eval.json"),
    ):
        with pytest.raises(ValueError, match="doing nothing would succeed"):
            asyncio.run(playing)


def test_fewer_tasks_than_a_step_plays_are_refused(settings: Recipe, tmp_path: Path) -> None:
    few = override_recipe(settings, {"run.tasks_per_step": 7})
    assert found_by_all(few, tmp_path) == "tasks.train has 6 tasks, run.tasks_per_step is 7"


def test_a_curriculum_with_too_few_tasks_at_some_step_is_refused(settings: Recipe, tmp_path: Path) -> None:
    easy = task("easy", difficulty=Difficulty.EASY)
    save([easy, *load(tmp_path / "train.jsonl")], tmp_path / "train.jsonl")
    staged = override_recipe(
        settings, {"curriculum.kind": "schedule", "curriculum.points": [[0, [0, 1, 0]], [2, [1, 0, 0]]]}
    )
    assert "step 2 can draw from 1 tasks" in found_by_all(staged, tmp_path)


def test_a_prompt_without_room_is_refused(settings: Recipe) -> None:
    short = override_recipe(settings, {"rollout.tokens_per_episode": 20, "rollout.tokens_per_turn": 4})
    problems = asyncio.run(dry_run(to_check(short))).problems
    assert "rollout.tokens_per_episode is 20: raise it" in problems[0]
    with pytest.raises(ValueError, match="tokens_per_episode is 20"):
        run_it(short)


def test_imitation_without_a_demonstration_is_refused(settings: Recipe, tmp_path: Path) -> None:
    imitating = override_recipe(settings, {"imitation.weight": 0.1})
    assert "no task of tasks.train has a demonstration" in found_by_all(imitating, tmp_path)


def test_a_user_that_a_model_plays_needs_a_model_in_the_recipe(settings: Recipe, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    *sound, last = load(file)
    save([*sound, replace(last, user=ModelUser("Ann", "Buy."))], file)
    problem = found_by_all(settings, tmp_path)
    assert f"task {last.id!r}: user.kind is 'model'" in problem
    assert "user.model" in problem
    missing = override_recipe(settings, {"user.model": "no/such/folder/anywhere"})
    with pytest.raises(ValueError, match=r"user\.model: no/such"):
        run_it(missing)
