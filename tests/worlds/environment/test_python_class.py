"""Classes found by name, the tasks they generate, and mistakes that are named before an episode is played."""

from pathlib import Path
from typing import Any

import pytest

from turnwise.config import Recipe, RewardConfig
from turnwise.setup.requirements import playing_problems
from turnwise.setup.tasks import own_tasks, with_own_tasks
from turnwise.tasks.load import load
from turnwise.types import Answer, StateProbe, Task, Truth
from turnwise.worlds.environment import find_environment, generated_tasks


class Game:
    """A class that has everything."""

    def reset(self, task: Task) -> str:
        return "Say something."

    def step(self, said: Any) -> tuple[str, bool]:
        return "", True

    def score(self) -> dict[str, float]:
        return {"outcome": 1.0}

    @staticmethod
    def tasks() -> list[Any]:
        return [Task(seed=1), {"id": "two", "prompt": "Two?"}, Task("held", seed=3, split="test")]


class Unscored(Game):
    """Has no score, so that truths must decide."""

    score = None  # type: ignore[assignment]


class NeedsSize(Game):
    """Cannot be made without an argument."""

    def __init__(self, size: int) -> None: ...


class NoStep:
    """Lacks a method."""

    def reset(self, task: Task) -> str:
        return "x"


class TasksOfAnObject(Game):
    """Its tasks need an object."""

    def tasks(self) -> list[Any]:  # type: ignore[override]
        return []


class WrongTasks(Game):
    """Its tasks are not rows of a task file."""

    @staticmethod
    def tasks() -> list[Any]:
        return [{"prompt": 3}]


class UnknownSplit(Game):
    """Its tasks are in a split that no recipe has."""

    @staticmethod
    def tasks() -> list[Any]:
        return [Task(seed=1, split="training")]


HERE = __name__


def recipe(name: str = "Game", **more: Any) -> Recipe:
    return Recipe(environment=f"{HERE}:{name}", **more)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HERE}:NoStep", r"has no method step\(\)"),
        (f"{HERE}:NeedsSize", "cannot be made without arguments .*'size'"),
        (f"{HERE}:Nothing", "no attribute 'Nothing'"),
        ("nowhere:Game", "nowhere cannot be imported"),
        ("Game", "write it as module:function"),
        (f"{HERE}:HERE", "is a str, not a function"),
    ],
)
def test_a_class_that_cannot_be_an_environment_is_named(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"environment '{name}'.*{words}"):
        find_environment(name)


def test_a_function_that_makes_the_object_is_an_environment_too() -> None:
    make = lambda: NeedsSize(3)  # noqa: E731
    assert find_environment("python:make", {"python:make": make}) is make
    assert generated_tasks("python:make", make) == {}


def test_tasks_of_the_class_become_files_by_split(tmp_path: Path) -> None:
    complete = with_own_tasks(recipe(), tmp_path)
    assert complete.tasks.train is not None
    assert complete.tasks.test is not None
    train = load(complete.tasks.train)
    assert [(task.seed, task.prompt != ()) for task in train] == [(1, False), (0, True)]
    assert train[1].id == "two"
    assert [task.id for task in load(complete.tasks.test)] == ["held"]
    assert complete.tasks.validation is None
    # a recipe that names its training tasks has them from its files alone
    assert own_tasks(complete) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NeedsSize", "cannot be made without arguments"),
        ("TasksOfAnObject", "is it a staticmethod or a classmethod"),
        ("WrongTasks", r"tasks\(\) failed: tasks\(\): row 1: prompt"),
        ("UnknownSplit", "split 'training' is not one of train, validation, test"),
    ],
)
def test_wrong_tasks_of_a_class_are_named(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        own_tasks(recipe(name))


def test_a_recipe_without_any_tasks_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"generates no training tasks: give a file, or add .* tasks\(\)"):
        with_own_tasks(Recipe(environment="tests.worlds.environment.stage:Guess"), tmp_path)


def test_the_environment_or_the_truth_must_score() -> None:
    bare, asked = Task("a", seed=1), Task("b", truth=Truth(answer=Answer("x")))
    assert list(playing_problems(recipe(), [bare, asked], None, (), has_score=True)) == []
    [problem] = playing_problems(recipe("Unscored"), [bare, asked], None, (), has_score=False)
    assert problem.startswith("task 'a': environment")
    assert "has no method score(), and its truth asks for nothing" in problem


def test_a_task_of_servers_cannot_be_played_in_an_environment() -> None:
    tasks = [Task("a", servers=("fmp",)), Task("b", truth=Truth(probes=(StateProbe("read", {}, "x"),)))]
    problems = list(playing_problems(recipe(), tasks, None, (), has_score=True))
    assert [problem.split(" is set")[0] for problem in problems] == [
        "task 'a': servers",
        "task 'b': truth.probes",
    ]


def test_without_an_environment_a_task_needs_a_prompt() -> None:
    tasks = [Task("a", truth=Truth(answer=Answer("x")))]
    assert list(playing_problems(Recipe(), tasks, None, ())) == ["task 'a': its prompt is empty"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tools": {"functions": ("a:b",)}}, "tools.functions is set"),
        ({"tools": {"mcp": "mcp.json"}}, "tools.mcp is set"),
        (
            {"tools": {"cassette": "calls.jsonl"}},
            "replies cannot be recorded or replayed",
        ),
        ({"engine": {"kind": "scripted"}}, "demonstrations cannot be played"),
        ({"run": {"warm_start": True}}, "demonstrations cannot be played"),
        ({"imitation": {"weight": 0.1}}, "demonstrations cannot be played"),
    ],
)
def test_settings_that_an_environment_excludes_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        recipe(**more)


def test_a_part_of_the_score_is_a_reward_in_a_recipe() -> None:
    part = RewardConfig(name="environment.close", weight=0.3)
    assert recipe(rewards=(RewardConfig(name="outcome"), part)).rewards[1] == part
