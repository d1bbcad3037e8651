"""A task holds: its answer is the same later and in other sessions, and only what it asks for earns it."""

import asyncio
import copy
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from turnwise.explore.driver import Explorer, in_another_time_zone
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.explore.report.report_json import as_json
from turnwise.explore.verdicts.change_cheats import ChangeCheat, earns
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.tasks.rows import row_of
from turnwise.types import DemoTurn, Task, ToolCall

HERE = Path(__file__).parent


def clerk(folder: Path) -> ServerSpec:
    arguments = ("-I", str(HERE / "light_sdk.py"), str(HERE / "servers" / "clerk.py"), str(folder))
    return ServerSpec(name="clerk", command=sys.executable, args=arguments)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    """An exploration in which prices move while it waits to play its tasks once more."""
    folder = tmp_path_factory.mktemp("clerk")
    spec = clerk(folder)

    def say(line: str) -> None:
        if line.endswith("s, all tasks are played once more") and not (folder / "moved").exists():
            (folder / "new").write_text(str(time.time() + 3))
            (folder / "new").rename(folder / "moved")

    async def explore() -> Exploration:
        async with Pool([spec]) as pool, Pool([in_another_time_zone(spec)]) as later:
            options = ExploreOptions(num_tasks=80, minutes=6, pause_seconds=6)
            explorer = Explorer(pool, later, [spec], options, say)
            await explorer.run()
            return explorer.result()

    return asyncio.run(explore())


def of_tool(found: Exploration, tool: str) -> list[Task]:
    return [task for task in found.tasks if tool in task.truth.required_tools]


def test_an_answer_that_moves_after_it_was_verified_is_not_asked_for(found: Exploration) -> None:
    assert "it is not the same some time later" in found.rejections
    prices = {"39.9", "149.5", "24.75", "11.2", "8.95"}
    assert not prices & {task.demonstration[-1].text for task in found.tasks}
    assert of_tool(found, "get_person")


def test_an_answer_that_differs_between_two_sessions_is_not_asked_for(found: Exploration) -> None:
    assert "the answer differs between sessions" in found.rejections
    assert not of_tool(found, "office_hours")


def test_no_task_and_no_report_has_a_key_that_a_tool_shows(found: Exploration) -> None:
    written = json.dumps([*map(row_of, found.tasks), as_json(found)])
    assert "list_access" in written
    assert not any(key in written for key in ("9aXk27QvLm3RtZ81Bn", "4TzQ8mWv1KpR6yXc3NdJ7sLb0FhG2aEu"))


def test_writing_more_than_was_asked_for_earns_nothing(found: Exploration, tmp_path: Path) -> None:
    """The whole answer that holds the words in place of these words, and more words than these."""
    writing = of_tool(found, "write_note")
    assert writing

    async def play() -> None:
        async with Pool([clerk(tmp_path)]) as pool:
            await pool.connect()
            for task in writing:
                for number, cheat in enumerate(cheats(task)):
                    async with pool.lease(["clerk"], f"{task.id}/{number}") as toolbox:
                        assert not await earns(cheat, task, toolbox), (task.prompt[0].content, cheat)

    asyncio.run(play())


def cheats(task: Task) -> list[ChangeCheat]:
    """The plan of a task with other words written: those of a whole earlier answer, and more than asked."""
    plan = task.demonstration
    texts = [result.content for turn in plan for result in turn.results]
    return [
        ChangeCheat(tuple(_written(turn, text) for turn in plan))
        for text in [*texts, "{} and more", "more than {}"]
    ]


def _written(turn: DemoTurn, text: str) -> DemoTurn:
    calls = []
    for call in turn.calls:
        arguments = copy.deepcopy(dict(call.arguments))
        if call.name == "write_note":
            arguments["text"] = text.replace("{}", arguments["text"]) if text.count("{}") else text
        calls.append(ToolCall(call.id, call.name, arguments))
    return replace(turn, calls=tuple(calls))
