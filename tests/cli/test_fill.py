"""`tasks check --fill`: missing results come from real calls, and only what succeeds is written."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.faulty_http import http_server
from tests.mcp.test_enclosure import SCRIBE
from tests.test_cli import Ran, turnwise
from turnwise.tasks.load import load


def turn(tool: str, said: str = "", /, **arguments: Any) -> dict[str, Any]:
    return {"text": said, "calls": [{"name": tool, "arguments": arguments}]}


def task(number: int, *turns: dict[str, Any], answer: str = "2 lines") -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "prompt": f"Add a line, please ({number}).",
        "servers": ["files"],
        "truth": {"answer": {"value": answer}},
        "demonstration": [*turns, {"text": "2 lines"}],
    }


WRITE = turn("write_file", "First the line.", path="data/a.txt", text="two\n")
READ = turn("read_file", path="data/a.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one\n")
    command = {"command": sys.executable, "args": [SCRIBE, "data"], "cwd": "."}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"files": command}}))
    return tmp_path


def write(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def fill(folder: Path, new: str = "filled.jsonl") -> Ran:
    return turnwise("tasks", "check", "tasks.jsonl", "--fill", new, cwd=folder)


def test_check_and_sft_say_which_command_fills_missing_results(folder: Path) -> None:
    write(folder, task(1, WRITE), {**task(2), "demonstration": [{"text": "2 lines"}]})
    ran = turnwise("tasks", "check", "tasks.jsonl", cwd=folder)
    assert ran.code == 0, ran
    assert "tasks.jsonl: 1 of 2 demonstrations have no results; " in ran.out
    assert "turnwise tasks check tasks.jsonl --fill NEW_FILE" in ran.out
    recipe = '[model]\npath = "embedded"\n[tasks]\ntrain = "tasks.jsonl"\n[tools]\nmcp = "mcp.json"\n'
    (folder / "recipe.toml").write_text(recipe)
    ran = turnwise("sft", "recipe.toml", "--out", "warm", "--no-verify", cwd=folder)
    assert ran.code == 2, ran
    assert "1 of 2 demonstrations of" in ran.err
    assert "tasks.jsonl --fill filled.jsonl` makes their calls" in ran.err


def test_filled_demonstrations_have_the_servers_results_and_the_files_stay_as_they_were(folder: Path) -> None:
    write(folder, task(1, WRITE, READ), task(2, READ))
    ran = fill(folder)
    assert ran.code == 0, ran
    assert "filled.jsonl: 2 tasks; 2 of 2 demonstrations filled" in ran.out
    first, second = load(folder / "filled.jsonl")
    assert [turn.text for turn in first.demonstration] == ["First the line.", "", "2 lines"]
    assert first.demonstration[1].results[0].content == "two\n"
    assert second.demonstration[0].results[0].content == "one\n", "every demonstration has its own copy"
    assert (folder / "data" / "a.txt").read_text() == "one\n"
    again = turnwise("tasks", "check", "filled.jsonl", cwd=folder)
    warning, found = again.out.splitlines()
    assert (again.code, found) == (0, "no problems, 1 warnings")
    assert "the right answer earns the reward without a call" in warning


def test_a_failing_demonstration_is_named_with_its_row_and_left_out(folder: Path) -> None:
    write(folder, task(1, WRITE), task(2, turn("do", what="error")), task(3, WRITE, answer="7 lines"))
    ran = fill(folder)
    assert ran.code == 1, ran
    assert "filled.jsonl: 3 tasks; 1 of 3 demonstrations filled" in ran.out
    assert 'tasks.jsonl: row 2: demonstration: do {"what": "error"} fails now: ' in ran.out
    assert "tasks.jsonl: row 3: demonstration: its truth does not hold: " in ran.out
    assert [bool(task.demonstration) for task in load(folder / "filled.jsonl")] == [True, False, False]


def test_no_file_is_replaced_and_none_is_written_from_a_file_with_problems(folder: Path) -> None:
    write(folder, task(1, WRITE))
    ran = fill(folder, "tasks.jsonl")
    assert (ran.code, ran.err) == (
        2,
        "turnwise: tasks.jsonl: is there already; choose another name, or remove it\n",
    )
    write(folder, task(1, turn("write_fil", path="data/a.txt", text="two")))
    ran = fill(folder)
    assert ran.code == 1, ran
    assert "no server has a tool 'write_fil'" in ran.out
    assert "filled.jsonl: not written" in ran.out
    assert not (folder / "filled.jsonl").exists()


def test_a_call_that_could_change_something_real_is_not_made(folder: Path) -> None:
    write(folder, {**task(1, turn("do")), "servers": []})
    for options in ({}, {"data": "real"}):
        with http_server() as url:
            block = {"url": url, "turnwise": options}
            (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"far": block}}))
            ran = fill(folder)
        assert ran.code == 1, ran
        assert "not run: do could change what the server at 127.0.0.1 keeps" in ran.out
        (folder / "filled.jsonl").unlink()
