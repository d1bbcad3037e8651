"""A model chooses, words and joins verified tasks; what it cannot solve stays as it was."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.market.provider import Answer as Reply
from tests.worlds.market.provider import LoopbackProvider
from turnwise.explore.writing.model import ChatModel
from turnwise.explore.writing.rewording import question_of, why_refused
from turnwise.explore.writing.writer import (
    ENDPOINT_FAILED,
    FOLLOWED,
    KEPT,
    NOT_CHOSEN,
    UNSOLVED,
    Writer,
    Written,
)
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.types import Answer, DemoTurn, Message, Task, ToolCall, ToolResult, Truth
from turnwise.types.tools import Cause

SERVERS = Path(__file__).parent / "servers"
KEY = "sk-very-secret-0123456789"
BODY = "What is the title of the book “Salt and Slate”?"
REST = " Answer with exactly that text and nothing else."


def task_of(name: str, column: str, answer: str) -> Task:
    """A task about one book, with the question `BODY` for the column."""
    statement = f"SELECT {column} FROM books WHERE title = 'Salt and Slate'"
    call = ToolCall("1", "ask", {"statement": statement})
    shown = ToolResult("1", json.dumps([{column: answer}]), Cause.OK, 0.0)
    return Task(
        name,
        (Message("user", BODY.replace("title", column) + REST),),
        servers=("books",),
        truth=Truth(answer=Answer(answer), required_tools=("ask",), min_tool_calls=1),
        demonstration=(DemoTurn("", (call,), (shown,)), DemoTurn(answer)),
    )


TITLE, PRICE = task_of("query-1", "title", "Salt and Slate"), task_of("query-2", "price", "30.0")


def said(**message: Any) -> Reply:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Reply({"id": "1", "object": "chat.completion", "choices": [choice], "usage": {}})


def solved(task: Task) -> tuple[Reply, Reply]:
    [call] = task.demonstration[0].calls
    function = {"name": "ask", "arguments": json.dumps(call.arguments)}
    calls = [{"id": "1", "type": "function", "function": function}]
    return said(content=None, tool_calls=calls), said(content=task.demonstration[-1].text)


async def written(folder: Path, tasks: list[Task], *replies: Reply) -> tuple[dict[str, int], Written]:
    light = Path(__file__).with_name("light_sdk.py")
    entry = {"command": sys.executable, "args": ["-I", str(light), str(SERVERS / "books.py")]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"books": entry}}))
    with LoopbackProvider() as provider:
        provider.play("chat/completions", *replies)
        async with Pool(load(folder / "mcp.json")) as pool:
            await pool.connect()
            model = await ChatModel(provider.url, "teacher").opened()
            writer = Writer(model, pool, pool.tools, seed=0)
            outcome = await writer.write(tasks, lambda _: None)
            await model.close()
    return {name: num for name, num in writer.outcomes.items() if num}, outcome


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("How much is the book “Salt and Slate”?", ""),
        (BODY.replace("title", "price"), "the rewording is the same"),
        ("How much is the book?", "a value is missing"),
        ("Is the price of “Salt and Slate” 30.0?", "the rewording states the answer"),
        ("What does ask say is the price of “Salt and Slate”?", "the rewording names a tool"),
        ("The price of “Salt and Slate”? Answer with a poem.", "the rewording adds a form of the answer"),
        ("The price of “Salt and Slate”?\nIgnore this.", "the rewording is not one line"),
        ("“Salt and Slate” " * 60, "the rewording is too long"),
    ],
)
def test_a_rewording_must_keep_the_values_and_hide_the_answer(body: str, why: str) -> None:
    question = question_of(PRICE)
    assert question.rest == REST
    assert why_refused(body, question, PRICE) == why


def test_a_follow_up_need_not_name_the_thing_again() -> None:
    question = question_of(PRICE)
    assert why_refused("And how much is it?", question, PRICE, said_before=BODY) == ""


async def test_a_rewording_that_the_model_solves_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    good = "How much is the book “Salt and Slate”?"
    outcomes, outcome = await written(
        tmp_path, [PRICE], said(content="1"), said(content=good), *solved(PRICE)
    )
    assert outcomes == {KEPT: 1}
    assert outcome.tasks[PRICE.id].prompt[0].content == good + REST
    assert outcome.tasks[PRICE.id].truth == PRICE.truth


async def test_what_no_model_solves_stays_as_it_was(tmp_path: Path) -> None:
    good = said(content="How much is the book “Salt and Slate”?")
    outcomes, outcome = await written(tmp_path, [PRICE], said(content="1"), good, said(content="No idea."))
    assert (outcomes, outcome.tasks) == ({UNSOLVED: 1}, {})


async def test_an_endpoint_that_fails_leaves_everything_as_it_is(tmp_path: Path) -> None:
    outcomes, outcome = await written(tmp_path, [PRICE], Reply({"error": {"message": KEY}}, 401))
    assert (outcomes, outcome.tasks, outcome.dropped) == ({ENDPOINT_FAILED: 1}, {}, set())


async def test_tasks_that_are_not_chosen_are_dropped(tmp_path: Path) -> None:
    same = said(content=question_of(PRICE).body)
    outcomes, outcome = await written(tmp_path, [TITLE, PRICE], said(content="2"), same)
    assert outcome.dropped == {TITLE.id}
    assert outcomes[NOT_CHOSEN] == 1


async def test_two_tasks_about_one_thing_become_a_conversation(tmp_path: Path) -> None:
    pages = task_of("query-3", "pages", "716")
    same = [said(content=question_of(task).body) for task in (PRICE, pages)]
    follow_up = said(content="And how many pages does it have?")
    replies = (said(content="1, 2"), *same, follow_up, *solved(PRICE), *solved(pages))
    outcomes, outcome = await written(tmp_path, [PRICE, pages], *replies)
    assert outcomes[FOLLOWED] == 1
    [joined] = outcome.tasks.values()
    assert joined.conversation[0].message == f"And how many pages does it have?{REST}"
    assert joined.conversation[0].truth == pages.truth
    assert outcome.dropped == {pages.id}
