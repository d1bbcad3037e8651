"""The page of a run's tasks: search and filters, one task in full, the exploration's report, odd files."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import good, new_run, play_step, task, write_tasks
from tests.dashboard.serving import serving
from turnwise.dashboard.views.task_files import MAX_TASK_FILE_BYTES
from turnwise.dashboard.views.task_list import MAX_CALLS
from turnwise.tasks.load import save
from turnwise.types import DemoTurn, Difficulty, ToolCall


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 120 training tasks, two of them played once, and six held-out ones."""
    named = [task(f"t{number}", "quotes" if number % 3 else "sums") for number in range(119)]
    named.append(task("odd one", "sums", Difficulty.HARD, prompt="How LARGE is the harbour?"))
    write_tasks(tmp_path, named)
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [good(named[0]), good(named[1])])
        play_step(folder, 1, [good(named[0])])
        return folder.path


def ask(run: Path) -> Any:
    with serving(run) as served:
        return served.ask("tasks")


def test_odd_task_files_are_explained(run: Path) -> None:
    train = run.parent / "train.jsonl"
    rows = train.read_text().splitlines()
    train.write_text("\n".join([rows[0], "not JSON", '{"id": 1}', "[" * 100_000, rows[1]]))
    [file, _] = ask(run)["files"]
    assert (file["num_tasks"], file["num_bad"], file["problem"]) == (2, 3, "")
    train.unlink()
    assert ask(run)["files"][0]["problem"] == "the file is not there"
    os.mkfifo(train)
    assert ask(run)["files"][0]["problem"] == "is a FIFO, not a file"
    train.unlink()
    with train.open("wb") as sparse:
        sparse.truncate(MAX_TASK_FILE_BYTES + 1)
    assert "has more than" in ask(run)["files"][0]["problem"]


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "a\0.json", "/dev/zero", "x" * 5_000 + ".json", "t.parquet"]
)
def test_a_recipe_may_name_any_file(run: Path, path: str) -> None:
    recipe = json.loads((run / "recipe.json").read_text())
    recipe["tasks"] = {"train": path, "validation": "", "test": None}
    (run / "recipe.json").write_text(json.dumps(recipe))
    found = ask(run)
    [file] = found["files"]
    assert file["problem"]
    assert (found["total"], file["exploration"]) == (0, None)


def test_a_task_of_any_size_has_an_answer_of_bounded_size(run: Path) -> None:
    calls = tuple(ToolCall(str(number), "quote", {"text": "x" * 1_000}) for number in range(2_000))
    large = replace(
        task("large", prompt="y" * 2_000_000), demonstration=(DemoTurn("", calls), DemoTurn("done"))
    )
    save([large], run.parent / "train.jsonl")
    with serving(run) as served:
        found = served.ask("task", split="train", place=0)
        assert len(json.dumps(served.ask("tasks"))) < 10_000
    assert len(json.dumps(found)) < 1_000_000
    assert (found["num_calls"], len(found["demonstration"][0]["calls"])) == (2_000, MAX_CALLS)
    assert found["demonstration"][1]["text"] == "done"
