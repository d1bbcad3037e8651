"""What `turnwise tasks check` must find before a run does, with the file, row and field of every problem."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.contract_tools import contract_tools
from turnwise.rewards import DEFAULT, RewardTerm, why_unscorable_by
from turnwise.tasks.check import check, check_files
from turnwise.tasks.load import PlacedTask, save
from turnwise.types import (
    END_WORD,
    Answer,
    Cause,
    DemoTurn,
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

POST, HISTORY = "send_slack_message", "get_slack_channel_history"
TOOLS = contract_tools()
WHY = why_unscorable_by(DEFAULT)

GOOD = Task(
    id="good",
    prompt=(Message("user", "Post the price of ABCDT to trading."),),
    servers=("fmp", "slack"),
    tools=("fmp_*", "*slack*"),
    truth=Truth(
        answer=Answer(12.5, Matcher.NUMERIC, unit="$"),
        writes=(ExpectedWrite("send_slack_message", {"message": "12.50"}),),
        probes=(StateProbe("get_slack_channel_history", {"channel_id": "trading"}, "12.50"),),
        required_tools=("fmp_get_quote",),
        forbidden_tools=("execute_python",),
        milestones=("send_slack_message",),
    ),
    demonstration=(
        DemoTurn(
            "",
            (ToolCall("1", "fmp_get_quote", {"symbol": "ABCDT"}),),
            (ToolResult("1", "{}", Cause.OK, 0.0),),
        ),
        DemoTurn("12.50"),
    ),
)


def found(task: Task) -> list[tuple[str, str]]:
    problems = check([PlacedTask("tasks.jsonl", 3, task)], TOOLS, WHY)
    assert all((problem.file, problem.row) == ("tasks.jsonl", 3) for problem in problems)
    return [(problem.field, problem.message) for problem in problems]


def with_truth(**changes: Any) -> Task:
    return replace(GOOD, truth=replace(GOOD.truth, **changes))


def with_call(name: str, arguments: dict[str, Any]) -> Task:
    turn, answer = GOOD.demonstration
    return replace(GOOD, demonstration=(replace(turn, calls=(ToolCall("1", name, arguments),)), answer))


def test_a_sound_task_has_no_problem() -> None:
    assert found(GOOD) == []


def test_an_unknown_tool_is_reported_with_the_nearest_real_name(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    row = {
        "prompt": "Search and filter.",
        "reward_spec": {"ground_truth": {"expected_tools": ["tavily_search", "tavily_filter"]}},
        "extra_info": {"task_id": "t1", "tools_available": ["tavily_search", "tavily_filter"]},
    }
    path.write_text(json.dumps([row]))
    found = [str(problem) for problem in check_files([path], TOOLS, WHY)]
    problems = [problem for problem in found if "truth: its truth asks for nothing" not in problem]
    fields = ("tools.1", "truth.milestones.1")
    assert (len(found), len(problems)) == (3, 2)
    for problem, field in zip(problems, fields, strict=True):
        assert problem.startswith(f"{path}: row 1: {field}: no server has a tool 'tavily_filter'")
        assert "did you mean 'tavily_search'?" in problem


CALL, ANSWER = GOOD.demonstration
ARGUMENTS = "demonstration.0.calls.0.arguments"


def with_demonstration(*turns: DemoTurn, **changes: Any) -> Task:
    return replace(GOOD, demonstration=turns, **changes)


MISTAKES: list[tuple[Task, str, str]] = [
    (replace(GOOD, id=" "), "id", "empty"),
    (replace(GOOD, max_turns=0), "max_turns", "got 0"),
    (replace(GOOD, servers=("fmp", "slack", "fpm")), "servers.2", "did you mean 'fmp'?"),
    (replace(GOOD, tools=("fmp_*", "*slack*", "tavly_*")), "tools.2", "tavly_*"),
    (replace(GOOD, prompt=()), "prompt", "end with a user message"),
    (replace(GOOD, prompt=(Message("system", "x"),)), "prompt", "end with a user message"),
    (replace(GOOD, prompt=(Message("tool", "x"), *GOOD.prompt)), "prompt.0.role", "'tool'"),
    (replace(GOOD, prompt=(Message("user", "\n"),)), "prompt.0.content", "empty"),
    (with_truth(required_tools=("fmp_get_qoute",)), "truth.required_tools.0", "'fmp_get_quote'"),
    (with_truth(required_tools=("execute_python",), forbidden_tools=()), "truth.required_tools.0", "python"),
    (with_truth(forbidden_tools=("rm_rf",)), "truth.forbidden_tools.0", "no server has"),
    (with_truth(forbidden_tools=("fmp_get_quote",)), "truth.forbidden_tools", "required too"),
    (with_truth(milestones=("polygon_get_news",)), "truth.milestones.0", "not among the task's servers"),
    (
        with_truth(writes=(ExpectedWrite(POST, {"text": "x"}),)),
        "truth.writes.0.arguments.text",
        "no such argument",
    ),
    (with_truth(writes=(ExpectedWrite("fmp_get_quote", {}),)), "truth.writes.0.tool", "read-only"),
    (with_truth(probes=(StateProbe(HISTORY, {}, "x"),)), "truth.probes.0.arguments", "needs 'channel_id'"),
    (with_truth(probes=(StateProbe("list_slack_channels", {}, ""),)), "truth.probes.0.contains", "empty"),
    (
        with_truth(probes=(StateProbe("list_slack_channels", {}, "trading", equals="general"),)),
        "truth.probes.0.equals",
        "does not fit",
    ),
    (
        with_truth(probes=(StateProbe("list_slack_channels", {}, lacks=" "),)),
        "truth.probes.0.contains",
        "empty",
    ),
    (
        with_truth(probes=(StateProbe("list_slack_channels", {}, "trading desk", "trading"),)),
        "truth.probes.0.lacks",
        "part of `contains`",
    ),
    (with_call("fmp_quote", {}), "demonstration.0.calls.0.name", "did you mean"),
    (
        with_call("fmp_get_quote", {"symbl": "A", "symbol": "A"}),
        f"{ARGUMENTS}.symbl",
        "did you mean 'symbol'?",
    ),
    (with_call("fmp_get_quote", {}), ARGUMENTS, "needs 'symbol'"),
    (with_demonstration(CALL), "demonstration.0", "must be an answer"),
    (with_demonstration(CALL, CALL, ANSWER, max_turns=2), "demonstration", "allows 2"),
    (with_demonstration(DemoTurn("hm"), ANSWER), "demonstration.0.calls", "makes a call"),
    (
        with_demonstration(replace(CALL, results=(ToolResult("2", "{}", Cause.OK, 0.0),)), ANSWER),
        *("demonstration.0.results", "one each"),
    ),
    (replace(with_truth(min_tool_calls=9), max_turns=2), "truth", "2 turns leave room for 8"),
    (with_demonstration(max_turns=1), "truth", "asks for 1 calls"),
    (with_demonstration(tools=(), truth=Truth(min_tool_calls=1)), "truth.min_tool_calls", "offered no tool"),
]


@pytest.mark.parametrize(("task", "field", "words"), MISTAKES)
def test_a_mistake_is_found_once_and_at_its_field(task: Task, field: str, words: str) -> None:
    [(where, message)] = found(task)
    assert where == field
    assert words in message


def test_a_demonstration_without_any_results_is_no_problem() -> None:
    assert found(with_demonstration(replace(CALL, results=()), ANSWER)) == []


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        *((Answer(value, Matcher.NUMERIC), "value") for value in ("12.5", True, float("nan"))),
        *((Answer(value, Matcher.REGEX), "value") for value in ("(", ".*", 5)),
        *((Answer(value, Matcher.ONE_OF), "value") for value in ([], "yes", ["yes", 1])),
        *((Answer({}, Matcher.JSON_SUBSET), "value"), (Answer(12.5, Matcher.EXACT), "value")),
        *((Answer(" "), "value"), (Answer("x", Matcher.EXACT, unit="$"), "unit")),
        (Answer(1, Matcher.NUMERIC, tolerance=-0.1), "tolerance"),
    ],
)
def test_an_answer_that_no_matcher_could_use_is_found(answer: Answer, field: str) -> None:
    [(where, _)] = found(with_truth(answer=answer))
    assert where == f"truth.answer.{field}"


@pytest.mark.parametrize(
    "answer",
    [
        *(Answer(-3, Matcher.NUMERIC, tolerance=0), Answer(r"\d+ shares", Matcher.REGEX)),
        *(Answer(["yes", "y"], Matcher.ONE_OF), Answer({"a": None}, Matcher.JSON_SUBSET)),
        *(Answer(0, Matcher.JSON_SUBSET), Answer("x", Matcher.EXACT)),
    ],
)
def test_a_sound_answer_of_every_matcher_passes(answer: Answer) -> None:
    assert found(with_truth(answer=answer)) == []


def test_a_tool_must_be_on_one_of_the_tasks_servers_unless_it_names_none() -> None:
    task = replace(with_truth(milestones=("polygon_get_news",)), tools=None)
    assert [field for field, _ in found(task)] == ["truth.milestones.0"]
    assert found(replace(task, servers=("fmp", "slack", "polygon"))) == []
    assert found(replace(task, servers=())) == []


def test_a_truth_that_asks_for_nothing_is_found() -> None:
    bare = replace(GOOD, truth=Truth(forbidden_tools=("execute_python",)))
    assert [field for field, _ in found(bare)] == ["truth"]
    [(field, message)] = found(replace(GOOD, truth=Truth(rubric="Be brief.")))
    assert field == "truth"
    assert "add answer, writes, probes, required_tools, min_tool_calls or ends_with" in message
    assert [field for field, _ in found(replace(GOOD, truth=Truth(writes=())))] == ["truth"]
    assert found(replace(GOOD, truth=Truth(min_tool_calls=1))) == []


def test_the_reward_decides_what_a_truth_must_ask() -> None:
    graded = replace(GOOD, truth=Truth(rubric="Be brief."))
    judged = why_unscorable_by([RewardTerm("judge", options={"model": "m"})])
    assert check([PlacedTask("tasks.jsonl", 1, graded)], TOOLS, judged) == []
    [problem] = check([PlacedTask("tasks.jsonl", 1, replace(GOOD, truth=Truth()))], TOOLS, judged)
    assert "no rubric" in problem.message


def test_ids_are_unique_over_all_files_and_prompts_over_splits(tmp_path: Path) -> None:
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    other = replace(GOOD, id="other", prompt=(Message("user", "Another."),))
    shouted = Message("user", "ANOTHER.\n")
    save((GOOD, other, replace(other, id="again")), train)
    save((replace(GOOD, split="test", prompt=(Message("user", "New."),)),
          replace(other, id="held-out", split="test", prompt=(shouted,))), test)  # fmt: skip
    first, second = check_files([train, test], TOOLS, WHY)
    assert (first.file, first.row, first.field) == (str(test), 1, "id")
    assert f"{train}: row 1" in first.message
    assert (second.file, second.row, second.field) == (str(test), 2, "prompt")
    assert f"{train}: row 2 has the same prompt, in split 'train'" in second.message


def test_unreadable_rows_and_bad_tasks_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    save((with_truth(milestones=("nope",)), GOOD), path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{", lines[1].replace('"good"', '""')]))
    problems = check_files([path], TOOLS, WHY)
    found = [(problem.row, problem.field) for problem in problems]
    assert found == [(1, "truth.milestones.0"), (2, ""), (3, "id")]


# --- conversations ------------------------------------------------------------------------------------------

ASKS = Truth(answer=Answer("ABCDT"), writes=())
LATER = (FollowUp("And its symbol?", ASKS, ("fmp_*",)), FollowUp("Thanks. Which server?", ASKS))
TALK = replace(
    GOOD,
    conversation=LATER,
    user=ScriptedUser((UserRule("which channel", "trading"),)),
    demonstration=(
        CALL,
        DemoTurn("which channel?"),
        DemoTurn("12.50", user="trading"),
        replace(CALL, user="And its symbol?"),
        DemoTurn("ABCDT"),
        DemoTurn("ABCDT", user="Thanks. Which server?"),
    ),
)


PLAYED = replace(TALK, user=ModelUser("Ann", "Get the price."))
"""The same conversation with a user that a model plays: the demonstration has its words."""


def following_up(**changes: Any) -> Task:
    return replace(TALK, conversation=(replace(LATER[0], **changes), LATER[1]))


def shown_as(*turns: DemoTurn) -> Task:
    return replace(TALK, demonstration=turns)


def ruled_by(*rules: UserRule) -> Task:
    return replace(TALK, user=ScriptedUser(rules))


def test_a_sound_conversation_has_no_problem() -> None:
    assert found(TALK) == []
    assert found(PLAYED) == []


TALK_MISTAKES: list[tuple[Task, str, str]] = [
    (following_up(message=" "), "conversation.0.message", "empty"),
    (following_up(tools=("fpm_*",)), "conversation.0.tools.0", "no server has"),
    (following_up(truth=Truth()), "truth", "message 2: its truth asks for nothing"),
    (
        following_up(truth=replace(ASKS, required_tools=(POST,))),
        "conversation.0.truth.required_tools.0",
        "not among the task's servers and tools",
    ),
    (following_up(truth=replace(ASKS, ends_with="fmp_get_quote")), "conversation.0.truth.ends_with", "words"),
    (following_up(truth=Truth(ends_with="fmp_qote")), "conversation.0.truth.ends_with", "did you mean"),
    (
        following_up(truth=replace(ASKS, answer=Answer("(", Matcher.REGEX))),
        "conversation.0.truth.answer.value",
        "not a regular expression",
    ),
    (with_truth(forbidden_tools=(POST,), ends_with=POST, answer=None), "truth.forbidden_tools", "to end it"),
    (ruled_by(UserRule("(", "x")), "user.rules.0.when", "not a regular expression"),
    (ruled_by(UserRule("x*", "x")), "user.rules.0.when", "matches every text"),
    (ruled_by(UserRule("x", " ")), "user.rules.0.say", "empty"),
    (replace(PLAYED, user=ModelUser(" ", "Buy.")), "user.persona", "empty"),
    (replace(PLAYED, user=ModelUser("Ann", "")), "user.goal", "empty"),
    (replace(PLAYED, user=ModelUser("Ann", f"Say {END_WORD}.")), "user.goal", "ends the conversation"),
    (
        replace(PLAYED, demonstration=(CALL, DemoTurn("Which?"), DemoTurn("12.50")), conversation=()),
        "demonstration.2.user",
        "give its words here",
    ),
    (shown_as(*TALK.demonstration[:-1]), "demonstration.4", "the user continues with 'Thanks"),
    (shown_as(*TALK.demonstration, ANSWER), "demonstration.5.calls", "a turn before the last"),
    (
        shown_as(CALL, replace(ANSWER, user="Hello?"), *TALK.demonstration[3:]),
        "demonstration.1.user",
        "no user speaks here",
    ),
    (
        shown_as(CALL, ANSWER, replace(CALL, user="Hello?"), *TALK.demonstration[4:]),
        "demonstration.2.user",
        "the task's user says 'And its symbol?' here",
    ),
    (
        replace(TALK, tools=("*slack*",), truth=replace(GOOD.truth, required_tools=())),
        "demonstration.0.calls",
        "'fmp_get_quote' is not offered with message 1",
    ),
]


@pytest.mark.parametrize(("task", "field", "words"), TALK_MISTAKES)
def test_mistakes_of_a_conversation_are_found(task: Task, field: str, words: str) -> None:
    assert [message for at, message in found(task) if at == field and words in message], found(task)


def test_conversations_that_begin_alike_may_be_in_different_splits() -> None:
    other = replace(TALK, id="other", split="test", conversation=(FollowUp("And the chief?", ASKS),))
    placed = [PlacedTask("a", 1, replace(one, demonstration=())) for one in (TALK, other)]
    assert check(placed, TOOLS, WHY) == []
    same = [*placed, PlacedTask("a", 2, replace(TALK, id="same", split="test", demonstration=()))]
    assert [problem.field for problem in check(same, TOOLS, WHY)] == ["prompt"]
