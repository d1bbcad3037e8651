"""Rows of earlier systems: everything they state is kept, and nothing is added."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.tasks.legacy_rows import inputs_row, processed_row, stored_row
from turnwise.tasks.load import load, save
from turnwise.types import Answer, Difficulty, Message, Task

SERVERS = {
    **{"fmp_get_quote": "fmp", "polygon_get_aggs": "polygon"},
    **{"execute_python": "python", "send_slack_message": "slack"},
}
ROW = stored_row("whole_row")


def loaded(tmp_path: Path, row: dict[str, Any], name: str = "train.json") -> Task:
    path = tmp_path / name
    path.write_text(json.dumps([row]))
    [task] = load(path, tool_servers=SERVERS)
    return task


def test_a_whole_row_becomes_a_task(tmp_path: Path) -> None:
    task = loaded(tmp_path, ROW)
    assert task.id == "train-fin-0042"
    assert task.prompt == (
        Message("system", "You are a financial analyst with tools."),
        Message("user", "Get the quote of AAPL and post it to #trading."),
    )
    assert task.difficulty is Difficulty.HARD
    assert task.turn_limit == 10
    assert task.tools == ("fmp_get_quote", "send_slack_message", "execute_python")
    assert task.servers == ("fmp", "slack", "python")
    assert task.truth.required_tools == (), "the question names none"
    assert task.truth.milestones == ("fmp_get_quote", "send_slack_message", "execute_python")
    assert "The user asked: Get the quote of AAPL" in task.truth.rubric
    assert task.truth.rubric.endswith("Quote fetched: yes\nMessage: names the price")
    assert task.truth.answer is None
    assert task.truth.writes is None
    assert task.split == "train"


def test_a_converted_file_loads_as_the_same_task(tmp_path: Path) -> None:
    task = loaded(tmp_path, ROW)
    save((task,), tmp_path / "new.jsonl")
    assert load(tmp_path / "new.jsonl") == (task,)


def test_a_parquet_file_of_earlier_rows_loads(tmp_path: Path) -> None:
    path = tmp_path / "validation.parquet"
    prompt = [{"role": message["role"], "content": message["content"]} for message in ROW["prompt"]]
    packed = ROW | {"prompt": prompt, "extra_info": json.dumps(ROW["extra_info"])}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([packed]), str(path))
    [task] = load(path, tool_servers=SERVERS)
    assert (task.id, task.split) == ("validation-fin-0042", "validation")
    assert task.servers == ("fmp", "slack", "python")
    assert task.truth.milestones == ("fmp_get_quote", "send_slack_message", "execute_python")


def test_servers_stay_empty_if_no_server_has_the_tools(tmp_path: Path) -> None:
    row = {**ROW, "reward_spec": {"ground_truth": {"expected_tools": ["mystery_tool"]}}}
    row["extra_info"] = {"task_id": "x"}
    task = loaded(tmp_path, row)
    assert (task.servers, task.tools) == ((), None)
    assert task.difficulty is Difficulty.MEDIUM


def test_a_row_without_an_id_is_named_by_its_file_and_number(tmp_path: Path) -> None:
    assert loaded(tmp_path, {**ROW, "extra_info": {}}, "test_v2.json").id == "test_v2-1"
    assert loaded(tmp_path, {**ROW, "extra_info": {}}, "test_v2.json").split == "test"


@pytest.mark.parametrize(
    ("word", "difficulty"), [("Simple", "easy"), ("easy", "easy"), ("moderate", "medium"), ("hard", "hard")]
)
def test_complexity_words_become_difficulties(tmp_path: Path, word: str, difficulty: str) -> None:
    assert loaded(tmp_path, {**ROW, "extra_info": {"complexity": word}}).difficulty == difficulty


@pytest.mark.parametrize("truth", ["42.5", 42.5, {"answer": "42.5"}])
def test_a_truth_that_is_an_answer_is_kept_as_one(tmp_path: Path, truth: Any) -> None:
    row = {"prompt": "How much?", "reward_spec": {"ground_truth": truth}}
    assert loaded(tmp_path, row).truth.answer == Answer("42.5")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": [{"role": "system", "content": "only"}]}, "prompt"),
        ({"prompt": [{"role": "user", "content": "  "}]}, "prompt.0.content"),
        ({"prompt": ["text"]}, "prompt.0"),
        ({"reward_spec": {"ground_truth": {"expected_tools": "fmp"}}}, "ground_truth.expected_tools"),
        ({"reward_spec": {"ground_truth": {"tool_sequence": [{"step": 1}]}}}, "tool_sequence.0"),
        ({"reward_spec": "none"}, "reward_spec"),
        ({"extra_info": {"complexity": "epic"}}, "extra_info.complexity"),
        ({"extra_info": {"max_turns": 0}}, "max_turns"),
        ({"extra_info": {"max_turns": "8"}}, "max_turns"),
        ({"task_metadata": "a01"}, "task_metadata"),
    ],
)
def test_a_mistake_names_its_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=r"train\.json: row 1") as caught:
        loaded(tmp_path, {**ROW, **changes})
    assert field in str(caught.value)


def test_a_row_of_the_inputs_layout_keeps_what_can_be_verified(tmp_path: Path) -> None:
    task = loaded(tmp_path, inputs_row())
    assert (task.id, task.family, task.difficulty, task.turn_limit) == ("train-a01", "a", Difficulty.EASY, 5)
    assert [message.role for message in task.prompt] == ["user"]
    assert task.tools == tuple(inputs_row()["extra_info"]["tools_available"])
    assert task.truth.required_tools == ("fmp_get_quote",)
    assert task.truth.min_tool_calls == 0
    assert task.truth.milestones == ("fmp_get_quote", "list_slack_channels")
    assert task.demonstration == (), "nobody has verified it"


def test_a_row_of_the_processed_layout_keeps_what_can_be_verified(tmp_path: Path) -> None:
    task = loaded(tmp_path, processed_row())
    assert (task.id, task.family, task.truth.min_tool_calls) == ("train-d03", "general", 0)
    assert task.truth.required_tools == ("fmp_get_quote",)
    assert task.truth.milestones == ("fmp_get_quote",)
    assert task.truth.rubric.startswith("The user asked: What does fmp_get_quote say of KALDJ?")


def test_criteria_become_lines_that_a_judge_can_read(tmp_path: Path) -> None:
    row = inputs_row(
        error_recovery_demonstrated=True,
        expected_outcome="The price is posted.",
        validation_rules=["Names the channel", "Names the price"],
        must_use_tools=["list_slack_channels"],
        sources=["FMP", "Slack"],
    )
    truth = loaded(tmp_path, row).truth
    assert truth.required_tools == ("fmp_get_quote",)
    assert truth.rubric.splitlines()[4:] == [
        "Expected outcome: The price is posted.",
        "Names the channel",
        "Names the price",
        "Sources: FMP, Slack",
    ]


def test_figures_of_the_recorded_run_are_neither_truth_nor_rubric(tmp_path: Path) -> None:
    task = loaded(tmp_path, inputs_row())
    assert not {"60", "95", "easoning"} & set(re.findall(r"\d+|easoning", task.truth.rubric))
    assert task.truth.answer is None


def test_the_same_id_in_two_files_is_two_ids(tmp_path: Path) -> None:
    ids = [loaded(tmp_path, inputs_row(), name).id for name in ("train.json", "validation.json")]
    assert ids == ["train-a01", "validation-a01"]


def test_metadata_at_the_top_and_its_question_are_enough(tmp_path: Path) -> None:
    metadata = {"task_id": "b07", "category": "b", "complexity": "hard", "original_question": "How much?"}
    task = loaded(tmp_path, {"task_metadata": metadata, "reward_spec": {"ground_truth": "42"}})
    assert (task.id, task.family, task.difficulty) == ("train-b07", "b", Difficulty.HARD)
    assert task.prompt == (Message("user", "How much?"),)
