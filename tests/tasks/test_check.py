"""What `turnwise tasks check` must find before a run does, each problem at its file, row and field."""

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
    Answer,
    Cause,
    DemoTurn,
    ExpectedWrite,
    Matcher,
    Message,
    StateProbe,
    Task,
    ToolCall,
    ToolResult,
    Truth,
)

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
    turn = replace(GOOD.demonstration[0], calls=(ToolCall("1", name, arguments),))
    return replace(GOOD, demonstration=(turn, GOOD.demonstration[1]))


def test_a_sound_task_has_no_problem() -> None:
    assert found(GOOD) == []


def test_a_dataset_that_asks_for_tavily_filter_is_told_the_nearest_real_name(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    row = {
        "prompt": "Search and filter.",
        "reward_spec": {"ground_truth": {"expected_tools": ["tavily_search", "tavily_filter"]}},
        "extra_info": {"task_id": "t1", "tools_available": ["tavily_search", "tavily_filter"]},
    }
    path.write_text(json.dumps([row]))
    problems = [str(problem) for problem in check_files([path], TOOLS, WHY)]
    assert len(problems) == 2
    for problem, field in zip(problems, ("tools.1", "truth.required_tools.1"), strict=True):
        assert problem.startswith(f"{path}: row 1: {field}: no server has a tool 'tavily_filter'")
        assert "did you mean 'tavily_search'?" in problem


@pytest.mark.parametrize(
    ("task", "field", "word"),
    [
        (replace(GOOD, id=" "), "id", "empty"),
        (replace(GOOD, max_turns=0), "max_turns", "got 0"),
        (replace(GOOD, servers=("fmp", "slack", "fpm")), "servers.2", "did you mean 'fmp'?"),
        (replace(GOOD, tools=("fmp_*", "*slack*", "tavly_*")), "tools.2", "tavly_*"),
        (replace(GOOD, prompt=()), "prompt", "end with a user message"),
        (replace(GOOD, prompt=(Message("system", "x"),)), "prompt", "end with a user message"),
        (replace(GOOD, prompt=(Message("tool", "x"), *GOOD.prompt)), "prompt.0.role", "'tool'"),
        (replace(GOOD, prompt=(Message("user", "\n"),)), "prompt.0.content", "empty"),
        (with_truth(required_tools=("fmp_get_qoute",)), "truth.required_tools.0", "'fmp_get_quote'"),
        (
            with_truth(required_tools=("execute_python",), forbidden_tools=()),
            "truth.required_tools.0",
            "python",
        ),
        (with_truth(forbidden_tools=("rm_rf",)), "truth.forbidden_tools.0", "no server has"),
        (with_truth(forbidden_tools=("fmp_get_quote",)), "truth.forbidden_tools", "required too"),
        (with_truth(milestones=("polygon_get_news",)), "truth.milestones.0", "not among the task's servers"),
        (
            with_truth(writes=(ExpectedWrite("send_slack_message", {"text": "x"}),)),
            "truth.writes.0.arguments.text",
            "no such argument",
        ),
        (with_truth(writes=(ExpectedWrite("fmp_get_quote", {}),)), "truth.writes.0.tool", "read-only"),
        (
            with_truth(probes=(StateProbe("get_slack_channel_history", {}, "x"),)),
            "truth.probes.0.arguments",
            "needs 'channel_id'",
        ),
        (
            with_truth(probes=(StateProbe("list_slack_channels", {}, ""),)),
            "truth.probes.0.contains",
            "empty",
        ),
        (with_call("fmp_quote", {}), "demonstration.0.calls.0.name", "did you mean"),
        (
            with_call("fmp_get_quote", {"symbl": "A", "symbol": "A"}),
            "demonstration.0.calls.0.arguments.symbl",
            "did you mean 'symbol'?",
        ),
        (with_call("fmp_get_quote", {}), "demonstration.0.calls.0.arguments", "needs 'symbol'"),
        (replace(GOOD, demonstration=GOOD.demonstration[:1]), "demonstration.0", "must be an answer"),
        (
            replace(GOOD, max_turns=2, demonstration=(GOOD.demonstration[0], *GOOD.demonstration)),
            "demonstration",
            "allows 2",
        ),
        (replace(with_truth(min_tool_calls=9), max_turns=2), "truth", "2 turns leave room for 8"),
        (replace(GOOD, max_turns=1, demonstration=()), "truth", "asks for 1 calls"),
        (
            replace(GOOD, tools=(), truth=Truth(min_tool_calls=1), demonstration=()),
            "truth.min_tool_calls",
            "offered no tool",
        ),
        (
            replace(
                GOOD,
                demonstration=(
                    replace(GOOD.demonstration[0], results=(ToolResult("2", "{}", Cause.OK, 0.0),)),
                    DemoTurn("x"),
                ),
            ),
            "demonstration.0.results",
            "one each",
        ),
        (
            replace(GOOD, demonstration=(DemoTurn("hm"), DemoTurn("x"))),
            "demonstration.0.calls",
            "makes a call",
        ),
    ],
)
def test_each_mistake_is_found_once_and_at_its_field(task: Task, field: str, word: str) -> None:
    [(where, message)] = found(task)
    assert where == field
    assert word in message


def test_a_demonstration_without_any_results_is_no_problem() -> None:
    bare = replace(GOOD.demonstration[0], results=())
    assert found(replace(GOOD, demonstration=(bare, GOOD.demonstration[1]))) == []


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (Answer("12.5", Matcher.NUMERIC), "value"),
        (Answer(True, Matcher.NUMERIC), "value"),
        (Answer(float("nan"), Matcher.NUMERIC), "value"),
        (Answer(1, Matcher.NUMERIC, tolerance=-0.1), "tolerance"),
        (Answer("(", Matcher.REGEX), "value"),
        (Answer(".*", Matcher.REGEX), "value"),
        (Answer(5, Matcher.REGEX), "value"),
        (Answer([], Matcher.ONE_OF), "value"),
        (Answer("yes", Matcher.ONE_OF), "value"),
        (Answer(["yes", 1], Matcher.ONE_OF), "value"),
        (Answer({}, Matcher.JSON_SUBSET), "value"),
        (Answer(12.5, Matcher.EXACT), "value"),
        (Answer(" ", Matcher.NORMALISED), "value"),
        (Answer("x", Matcher.EXACT, unit="$"), "unit"),
    ],
)
def test_an_answer_that_no_matcher_could_use_is_found(answer: Answer, field: str) -> None:
    [(where, _)] = found(with_truth(answer=answer))
    assert where == f"truth.answer.{field}"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(-3, Matcher.NUMERIC, tolerance=0),
        Answer(r"\d+ shares", Matcher.REGEX),
        Answer(["yes", "y"], Matcher.ONE_OF),
        Answer({"a": None}, Matcher.JSON_SUBSET),
        Answer(0, Matcher.JSON_SUBSET),
        Answer("x", Matcher.EXACT),
    ],
)
def test_a_sound_answer_of_each_matcher_passes(answer: Answer) -> None:
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
    assert "add answer, writes, probes, required_tools or min_tool_calls" in message
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
    assert [(problem.row, problem.field) for problem in problems] == [
        (1, "truth.milestones.0"),
        (2, ""),
        (3, "id"),
    ]
