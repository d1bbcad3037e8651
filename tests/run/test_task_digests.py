"""A run's folder knows the tasks that it began with, and what is different about others."""

from dataclasses import replace
from pathlib import Path

import turnwise as tw
from tests.run.stage import write_recipe
from tests.run.test_train import UNMEASURED
from turnwise.run.task_digests import FILE, keep_digests
from turnwise.tasks.load import load, save
from turnwise.types import Answer, DemoTurn, Task, Truth

TASKS = [Task(f"task{number}", f"What is {number} + 1?", answer=number + 1) for number in range(5)]


def test_other_truths_and_other_tasks_are_named_once(tmp_path: Path) -> None:
    assert keep_digests(tmp_path, {"training": TASKS, "test": TASKS}) == []
    assert keep_digests(tmp_path, {"training": TASKS, "test": TASKS}) == []
    changed = [Task("task0", "What is 0 + 1?", answer=2017), *TASKS[1:4], Task("new", "What?", answer=1)]
    [line] = keep_digests(tmp_path, {"training": changed, "test": TASKS})
    assert "the training tasks are not those of the run so far" in line
    assert "1 of 5 have another question or truth (task0), 1 are gone, 1 are new" in line
    assert keep_digests(tmp_path, {"training": changed}) == []


def test_another_demonstration_is_no_other_task(tmp_path: Path) -> None:
    keep_digests(tmp_path, {"training": TASKS})
    shown = [replace(task, demonstration=(DemoTurn("shown"),)) for task in TASKS]
    assert keep_digests(tmp_path, {"training": shown}) == []


def test_a_damaged_record_is_one_line_and_written_again(tmp_path: Path) -> None:
    for content in (b"{", b'{"training": 5}', b'{"training": {"task0": [1]}}'):
        (tmp_path / FILE).write_bytes(content)
        keep_digests(tmp_path, {"training": TASKS})
        assert keep_digests(tmp_path, {"training": TASKS}) == []


def test_a_resumed_run_says_that_truths_have_changed(tmp_path: Path) -> None:
    """The recipe names the task file; what stands in it may be other than it was."""
    recipe = write_recipe(tmp_path, run={"num_steps": 1, "checkpoint_every": 1}, **UNMEASURED)
    run = tw.train(recipe, quiet=True)
    words = "of 6 have another question or truth (train0)"
    assert words not in (run.path / "training.log").read_text()
    first, *others = load(tmp_path / "train.jsonl")
    save([replace(first, truth=Truth(answer=Answer("2017"))), *others], tmp_path / "train.jsonl")
    tw.train(resume=run, settings={"run.num_steps": 2}, quiet=True)
    assert (
        f"WARNING the training tasks are not those of the run so far: 1 {words}"
        in (run.path / "training.log").read_text()
    )
