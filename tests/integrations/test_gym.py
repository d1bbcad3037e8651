"""The skyrl-gym environment plays a task with its real server and returns our rewards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

import skyrl_gym

from tests.integrations.stage import write_recipe
from tests.mcp.leaks import descendants
from turnwise.chat import hermes
from turnwise.integrations.skyrl.gym import register
from turnwise.tasks.load import load
from turnwise.types import Task


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    before = descendants()
    recipe = write_recipe(tmp_path, num_tasks=1, reward="outcome")
    assert recipe.tasks.train is not None
    stage = register(recipe)
    yield load(recipe.tasks.train)[0]
    stage.close()
    assert not descendants() - before, "a server is still running"


def play(task: Task, *actions: str) -> tuple[list[dict[str, str]], list[Any]]:
    environment = skyrl_gym.make("turnwise", env_config={}, extras={"task": task, "max_turns": 9})
    opening, _ = environment.init([])
    steps = [environment.step(action) for action in actions]
    environment.close()
    return opening, steps


def test_a_demonstration_is_rewarded_and_another_answer_is_not(task: Task) -> None:
    said = [hermes.write_turn(turn.text, turn.calls) for turn in task.demonstration]
    opening, steps = play(task, *said)
    assert opening[0]["role"] == "system"
    assert "fmp_get_quote" in opening[0]["content"]
    assert "marketCap" in steps[0]["observations"][0]["content"]
    assert (steps[0]["done"], steps[0]["reward"]) == (False, 0.0)
    assert (steps[-1]["done"], steps[-1]["reward"]) == (True, 1.0)
    _, steps = play(task, said[0], "42")
    assert (steps[-1]["done"], steps[-1]["reward"]) == (True, 0.0)


def test_a_format_error_is_answered_and_an_episode_can_be_abandoned(task: Task) -> None:
    _, steps = play(task, "<tool_call>{no json}</tool_call>")
    assert not steps[0]["done"]
    assert "error" in steps[0]["observations"][0]["content"]
