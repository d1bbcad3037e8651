"""Task files: a saved file loads as the same tasks, and every mistake names file, row and field."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from turnwise.tasks.load import PlacedTask, Problem, from_rows, load, read, save
from turnwise.types import (
    Answer,
    Cause,
    DemoTurn,
    Difficulty,
    ExpectedWrite,
    FollowUp,
    Matcher,
    Message,
    ModelUser,
    ScriptedUser,
    StateProbe,
    Task,
    ToolCall,
    ToolResult,
    Truth,
    UserRule,
)

FORMATS = ("json", "jsonl", "parquet")

FULL = Task(
    id="post-1",
    prompt=(Message("system", "Be brief."), Message("user", "Post “12.30” to #trading\u2028now")),
    servers=("fmp", "slack"),
    truth=Truth(
        answer=Answer({"a": [1, 2.5, None, {"b": True}]}, Matcher.JSON_SUBSET, 0.25, ""),
        writes=(ExpectedWrite("send_slack_message", {"message": "é 12.30", "n": {"deep": [1]}}),),
        probes=(
            StateProbe("get_slack_channel_history", {"channel_id": "C1", "limit": 5}, "12.30"),
            StateProbe("list_slack_channels", {}, lacks="trading"),
            StateProbe("list_slack_channels", {}, "general", "trading"),
            StateProbe("list_slack_channels", {}, equals="#general"),
        ),
        min_tool_calls=2,
        required_tools=("fmp_get_quote",),
        forbidden_tools=("execute_python",),
        milestones=("fmp_get_quote", "send_slack_message"),
        rubric="Polite.",
    ),
    tools=("fmp_*", "send_*"),
    difficulty=Difficulty.HARD,
    max_turns=7,
    seed=11,
    family="post",
    split="test",
    world="embedded",
    demonstration=(
        DemoTurn(
            "",
            (ToolCall("c1", "fmp_get_quote", {"symbol": "ABCDT"}),),
            (ToolResult("c1", '{"price": 12.3}', Cause.OK, 0.5, 1, ("q->query",), True),),
        ),
        DemoTurn("12.30"),
        DemoTurn("12.40", user="And yesterday?"),
    ),
    conversation=(
        FollowUp("And yesterday?", Truth(Answer(12.4, Matcher.NUMERIC), writes=())),
        FollowUp("Post it.", Truth(writes=(), ends_with="send_slack_message"), ("send_*",)),
    ),
    user=ScriptedUser((UserRule("(?i)which", "ABCDT", 2), UserRule("why", "No reason.")), max_replies=3),
)
BARE = Task("bare", (Message("user", "Hi"),), (), Truth())
NO_CHANGE = Task(
    "quiet", (Message("user", "Look"),), ("fmp",), Truth(Answer(1.5, Matcher.NUMERIC), writes=()), tools=()
)


TALK = Task("talk", (Message("user", "Hi"),), (), Truth(), user=ModelUser("Anna, brief", "Buy.", 3))


def written(tmp_path: Path, rows: list[Any]) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def row(**changes: Any) -> dict[str, Any]:
    return {"id": "a", "prompt": "What?", "servers": ["fmp"], "truth": {"answer": {"value": "x"}}, **changes}


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_saved_is_loaded_again_exactly(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        save((FULL, BARE, NO_CHANGE, TALK), path)
        assert load(path) == (FULL, BARE, NO_CHANGE, TALK)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_task_file_is_readable_only_by_its_owner(tmp_path: Path, suffix: str) -> None:
    save((BARE,), tmp_path / f"tasks.{suffix}")
    assert (tmp_path / f"tasks.{suffix}").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "value", [float("nan"), "half a pair: \ud800"], ids=["not JSON", "not UTF-8, so found while writing"]
)
def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path, value: object) -> None:
    path = tmp_path / "tasks.json"
    save((BARE,), path)
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        save((Task("n", (Message("user", "?"),), (), Truth(Answer(value, Matcher.NUMERIC))),), path)
    assert load(path) == (BARE,)
    assert list(tmp_path.iterdir()) == [path]


def test_a_prompt_may_be_plain_text_and_the_list_may_be_inside_an_object(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps({"tasks": [row()]}))
    [task] = load(path)
    assert task.prompt == (Message("user", "What?"),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": ""}, ["row 2: id:", "''"]),
        ({"truht": {}}, ["row 2: truht:", "Extra inputs"]),
        ({"truth": {"answr": 1}}, ["row 2: truth.answr:"]),
        ({"truth": {"answer": {"value": 1, "matcher": "fuzzy"}}}, ["truth.answer.matcher", "'fuzzy'"]),
        ({"truth": {"answer": {"matcher": "exact"}}}, ["truth.answer.value: Field required"]),
        ({"truth": {"writes": [{"tool": "t"}]}}, ["truth.writes.0.arguments"]),
        ({"truth": {"probes": [{"tool": "t", "arguments": {}}]}}, ["truth.probes.0", "`lacks`"]),
        ({"truth": {"probes": [{"tool": "t", "arguments": {}, "lacks": 1}]}}, ["truth.probes.0.lacks"]),
        ({"difficulty": "brutal"}, ["difficulty", "'brutal'"]),
        ({"max_turns": 0}, ["max_turns", "got 0"]),
        ({"max_turns": "3"}, ["max_turns", "got '3'"]),
        ({"prompt": None}, ["prompt"]),
        ({"prompt": [{"role": "user"}]}, ["prompt.0.content"]),
        ({"servers": "fmp"}, ["servers", "'fmp'"]),
        ({"demonstration": [{"text": "", "calls": [{"id": "1"}]}]}, ["demonstration.0.calls.0.name"]),
    ],
)
def test_a_mistake_names_file_row_field_and_value(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    path = written(tmp_path, [row(), row(**changes)])
    with pytest.raises(ValueError, match="row 2") as caught:
        load(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="difficulty") as caught:
        load(written(tmp_path, [row(difficulty="x" * 10_000)]))
    assert len(str(caught.value)) < 600


def test_one_bad_row_does_not_hide_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, [row(id=""), row(id="good"), "", "{not json", "[1]", row(max_turns=-1)])
    found = list(read(path))
    assert [item.row for item in found] == [1, 2, 4, 5, 6]
    assert [isinstance(item, PlacedTask) for item in found] == [False, True, False, False, False]
    assert [item.field for item in found if isinstance(item, Problem)] == ["id", "", "", "max_turns"]
    assert "not JSON" in str(found[2])


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("tasks.csv", "id", "expected a file ending in .json, .jsonl, .parquet"),
        ("tasks.json", "{}", "expected a list of tasks"),
        ("tasks.json", "[", "Expecting value"),
        ("tasks.json", "[" * 100_000, "recursion"),
        ("tasks.parquet", "PAR?", "not a Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: str, word: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match="tasks") as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert word in str(caught.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_fifo_is_refused_and_a_link_is_followed(tmp_path: Path, suffix: str) -> None:
    fifo, real, link = (tmp_path / f"{name}.{suffix}" for name in ("fifo", "real", "link"))
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="is a FIFO, not a file"):
        load(fifo)
    save((BARE,), real)
    link.symlink_to(real)
    assert load(link) == (BARE,)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.jsonl: No such file"):
        load(tmp_path / "nowhere.jsonl")


def test_rows_of_question_and_answer_load_without_an_id_or_a_truth(tmp_path: Path) -> None:
    path = tmp_path / "qa.jsonl"
    rows: list[dict[str, Any]] = [
        {"question": "Capital of France?", "answer": "Paris"},
        {"question": "2 + 2?", "answer": 4},
        {"question": "A prime below 4?", "answer": ["2", "3"]},
        {"prompt": "Say anything."},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text, number, either, free = load(path)
    assert text.prompt == (Message("user", "Capital of France?"),)
    assert text.truth == Truth(Answer("Paris"))
    assert number.truth.answer == Answer(4, Matcher.NUMERIC)
    assert either.truth.answer == Answer(["2", "3"], Matcher.ONE_OF)
    assert free.truth == Truth()


def test_a_derived_id_is_stable_and_unique_and_repeated_tasks_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "qa.jsonl"
    row, other = '{"question": "a", "answer": "b"}\n', '{"question": "a", "answer": "c"}\n'
    path.write_text(row + other + row)
    first, second, third = (task.id for task in load(path))
    assert len({first, second, third}) == 3
    assert third == f"{first}-2"
    path.write_text(other + row)
    assert [task.id for task in load(path)] == [second, first], "an id does not depend on the order"
    assert [task.id for task in from_rows([{"question": "a", "answer": "b"}])] == [first]


def test_a_task_in_python_takes_text_and_a_plain_answer() -> None:
    assert Task(prompt="?", answer=3) == Task(
        "", (Message("user", "?"),), (), Truth(Answer(3, Matcher.NUMERIC))
    )
    with pytest.raises(ValueError, match="give either answer or truth"):
        Task(prompt="?", answer=3, truth=Truth())


def test_a_follow_up_may_give_its_answer_in_short_and_a_user_has_a_kind(tmp_path: Path) -> None:
    follow_up = {"message": "And now?", "answer": 12.5}
    user = {"kind": "scripted", "rules": [{"when": "which", "say": "A."}]}
    [task] = load(written(tmp_path, [row(conversation=[follow_up], user=user)]))
    assert task.conversation == (FollowUp("And now?", Truth(Answer(12.5, Matcher.NUMERIC))),)
    assert task.user == ScriptedUser((UserRule("which", "A."),))
    for changes, field in (
        ({"conversation": [{"message": "x", "tuth": {}}]}, "conversation.0.tuth"),
        ({"user": {**user, "kind": "person"}}, "user.kind: "),
        ({"user": {"rules": []}}, "user.kind: "),
        ({"user": {**user, "rules": []}}, "user.rules: "),
        ({"user": {**user, "kind": "model"}}, "user.persona: "),
        ({"user": {"kind": "model", "persona": "p", "goal": "g", "max_replies": 0}}, "user.max_replies: "),
        ({"user": {"kind": "model", "persona": "p", "goal": "g", "rules": []}}, "user.rules: "),
    ):
        with pytest.raises(ValueError, match=field):
            load(written(tmp_path, [row(**changes)]))
