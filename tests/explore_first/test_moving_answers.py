"""Answers that move by themselves: what moves is asked about in no task, what stands still is."""

import json
import time
from pathlib import Path

from tests.explore_first.exploring import SERVERS, entry_of, exploring
from turnwise.explore.exploration import Exploration
from turnwise.explore.first.verdicts import MOVED
from turnwise.mcp.spec import ServerSpec, load
from turnwise.types import Task

PERIOD = 4.0
FOR_EVER = 1e9


def specs_of(folder: Path, *arguments: object) -> tuple[ServerSpec, ...]:
    entry = {**entry_of(SERVERS / "moving.py", *arguments), "turnwise": {"num_warm": 0}}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"moving": entry}}))
    return load(file)


def asking_for(name: str, found: Exploration) -> list[str]:
    return [task.prompt[0].content for task in found.tasks if name in task.prompt[0].content]


def tools_of(tasks: tuple[Task, ...]) -> set[str]:
    return {name for task in tasks for name in task.truth.required_tools}


async def test_a_count_of_readings_is_not_asked_about(tmp_path: Path) -> None:
    found = await exploring(specs_of(tmp_path, "counters"), 40, 20.0, 0.0)
    assert asking_for("view", found) == []
    assert tools_of(found.tasks) == {"list_books", "get_book"}


async def test_a_price_that_moves_during_the_pause_is_not_asked_about(tmp_path: Path) -> None:
    started = tmp_path / "started"
    started.write_text(str(time.time()))
    found = await exploring(specs_of(tmp_path, "prices", started, PERIOD), 40, 20.0, PERIOD + 0.5)
    assert asking_for("price", found) == []
    assert tools_of(found.tasks) == {"list_stocks", "get_stock"}


async def test_tasks_whose_answers_move_before_the_end_are_withdrawn(tmp_path: Path) -> None:
    started = tmp_path / "started"
    started.write_text(str(time.time()))
    said: list[str] = []

    def move_when_verified(words: str) -> None:
        if words.startswith("verified:") and not any(line.startswith("verified:") for line in said):
            started.write_text(str(time.time() - 3 * FOR_EVER))
        said.append(words)

    specs = specs_of(tmp_path, "prices", started, FOR_EVER)
    found = await exploring(specs, 12, 20.0, 0.0, move_when_verified)
    assert found.rejections[MOVED]
    assert found.tasks
    assert 118.25 not in [task.truth.answer.value for task in found.tasks if task.truth.answer is not None]
