"""Rewordings that lose a value, tell the answer or cannot be solved are refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.explore_first.exploring import specs_of
from tests.worlds.market.provider import Answer as Reply
from tests.worlds.market.provider import LoopbackProvider
from turnwise.explore.first.command import ExploreCommand
from turnwise.explore.first.options import ExploreOptions
from turnwise.explore.first.paraphrase import ENDPOINT_FAILED, KEPT, UNSOLVED, ChatModel, Paraphraser
from turnwise.explore.first.rewording import question_of, why_refused
from turnwise.mcp.pool import Pool
from turnwise.types import Answer, DemoTurn, Message, Task, ToolCall, Truth

KEY = "sk-very-secret-0123456789"
BODY = "What is the text of the note “garden”?"
REST = " Answer with exactly that text and nothing else."
ANSWER = "Water the 12 tomato plants on Friday."
GOOD = "Please read me what the note “garden” says."
CALL = ToolCall("1", "read_note", {"title": "garden"})
TASK = Task(
    "look_up-1",
    (Message("user", BODY + REST),),
    servers=("notes",),
    truth=Truth(answer=Answer(ANSWER), required_tools=("read_note",), min_tool_calls=1),
    demonstration=(DemoTurn("", (CALL,)), DemoTurn(ANSWER)),
)


def said(**message: Any) -> Reply:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Reply({"id": "1", "object": "chat.completion", "choices": [choice], "usage": {}})


CALLS = [
    {"id": "1", "type": "function", "function": {"name": "read_note", "arguments": '{"title": "garden"}'}}
]
SOLVED = (said(content=None, tool_calls=CALLS), said(content=ANSWER))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (GOOD, ""),
        (BODY, "the rewording is the same"),
        ("Please read me what the note says.", "a value is missing"),
        (f"The note “garden” says: {ANSWER} Right?", "the rewording states the answer"),
        ("What does read_note say about “garden”?", "the rewording names a tool"),
        ("What does “garden” say? Answer with a poem.", "the rewording adds a form of the answer"),
        ("What does “garden” say?\nIgnore this line.", "the rewording is not one line"),
        ("“garden” " * 200, "the rewording is too long"),
        ("", "the rewording is not one line"),
    ],
)
def test_a_rewording_must_keep_the_values_and_hide_the_answer(body: str, why: str) -> None:
    question = question_of(TASK)
    assert question is not None
    assert question.rest == REST
    assert why_refused(body, question, TASK) == why


def test_attached_texts_and_the_form_of_the_answer_are_not_reworded() -> None:
    text = "How many are there? Answer with the number only.\n\nPaths:\nAnswer with care"
    question = question_of(Task("t", text))
    assert question is not None
    assert question.body == "How many are there?"
    assert question.body + question.rest == text


async def outcome_of(tmp_path: Path, *replies: Reply) -> tuple[dict[str, int], list[Task], LoopbackProvider]:
    reworded: list[Task] = []
    with LoopbackProvider() as provider:
        provider.play("chat/completions", *replies)
        async with Pool(specs_of(tmp_path, "notes")) as pool:
            await pool.connect()
            endpoint = ChatModel(provider.url, "teacher").opened()
            paraphraser = Paraphraser(endpoint, pool, pool.tools)
            await paraphraser.paraphrase([TASK], 0, reworded.append, lambda _: None)
            await endpoint.close()
    return dict(paraphraser.outcomes), reworded, provider


async def test_a_rewording_that_a_solver_solves_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    outcomes, [reworded], provider = await outcome_of(tmp_path, said(content=GOOD), *SOLVED)
    assert outcomes == {KEPT: 1}
    assert reworded.prompt[0].content == GOOD + REST
    assert reworded.truth == TASK.truth
    asked, first, _ = provider.requests
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert ANSWER not in json.dumps([asked.body, first.body])
    assert first.body["messages"][-1]["content"] == GOOD + REST


async def test_a_rewording_that_no_solver_solves_is_refused(tmp_path: Path) -> None:
    outcomes, reworded, _ = await outcome_of(tmp_path, said(content=GOOD), said(content="I do not know."))
    assert (outcomes, reworded) == ({UNSOLVED: 1}, [])


async def test_an_endpoint_that_fails_leaves_the_questions_as_they_are(tmp_path: Path) -> None:
    outcomes, reworded, _ = await outcome_of(tmp_path, Reply({"error": {"message": KEY}}, 401))
    assert (outcomes, reworded) == ({ENDPOINT_FAILED: 1}, [])


def test_an_address_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = ExploreOptions(paraphrase=ChatModel("localhost:8000", "teacher"))
    command = ExploreCommand(specs_of(tmp_path, "notes"), tmp_path / "out", options, Console(quiet=True))
    with pytest.raises(ValueError, match="must begin with http"):
        asyncio.run(command.run())
