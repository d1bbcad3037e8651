"""A resumed run says where it goes on, keeps the old figures, and does not start over unasked."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import turnwise as tw
from tests.run.stage import write_recipe
from tests.run.test_signals import running, train
from tests.run.test_train import UNMEASURED
from turnwise.records.folder import RunFolder
from turnwise.run.resumption import resume_command
from turnwise.tasks.load import load, save
from turnwise.types import Truth, answer_of


def killed_in_step(tmp_path: Path, step: int) -> Path:
    """A run that saves every two steps and is killed before it can save this one; steps count from 0."""
    recipe = write_recipe(tmp_path, run={"num_steps": 3, "checkpoint_every": 2}, **UNMEASURED)
    program = f"""
import os, signal
import turnwise as tw
def kill(figures):
    if figures["step"] == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
tw.train({str(recipe)!r}, on_step=kill, quiet=True)
"""
    with running("-c", program) as process:
        assert process.wait(timeout=100) == -signal.SIGKILL
    return tmp_path / "runs" / "run"


def steps_of(file: Path) -> list[int]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line["step"] for line in lines if line["kind"] == "update"]


def test_it_says_what_was_not_saved_and_keeps_the_old_figures(tmp_path: Path) -> None:
    run = killed_in_step(tmp_path, 2)
    old = (run / "trajectories" / "step-000002.jsonl").read_bytes()
    assert resume_command(RunFolder.read(run)) == f"turnwise train --resume {run}"
    tasks = load(tmp_path / "train.jsonl")
    save([replace(tasks[0], truth=Truth(answer_of(2017))), *tasks[1:]], tmp_path / "train.jsonl")
    ran = train("--resume", str(run))
    assert ran.code == 0, ran
    changed = (
        "the training tasks are not those of the run so far: 1 of 6 have another question or truth (train0)"
    )
    assert changed in ran.out
    dropped = run / "dropped" / "after-step-000002"
    words = f"resumed after step 2; step 3 was not saved, the old figures are kept in {dropped}\n"
    assert words in ran.out
    assert words in (run / "training.log").read_text()
    assert steps_of(run / "metrics.jsonl") == [0, 1, 2]
    assert steps_of(dropped / "metrics.jsonl") == [2]
    assert (dropped / "trajectories" / "step-000002.jsonl").read_bytes() == old
    again = train("--resume", str(run), "--from-start")
    assert again.code == 2
    assert "it saved a checkpoint after step 3" in again.err


def test_where_nothing_was_saved_it_starts_over_only_if_asked(tmp_path: Path) -> None:
    run = killed_in_step(tmp_path, 0)
    assert resume_command(RunFolder.read(run)) == f"turnwise train --resume {run} --from-start"
    figures = (run / "metrics.jsonl").read_bytes()
    refused = train("--resume", str(run))
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "--from-start" in refused.err
    with pytest.raises(ValueError, match="it ended before it saved anything"):
        tw.train(resume=run, quiet=True)
    assert (run / "metrics.jsonl").read_bytes() == figures
    assert not (run / "dropped").exists()
    shutil.copytree(run, tmp_path / "copy")
    done = train("--resume", str(run), "--from-start")
    assert done.code == 0, done
    dropped = run / "dropped" / "after-step-000000"
    assert f"started over; step 1 was not saved, the old figures are kept in {dropped}\n" in done.out
    assert (dropped / "metrics.jsonl").read_bytes() == figures
    assert steps_of(run / "metrics.jsonl") == [0, 1, 2]
    other = tw.train(resume=tmp_path / "copy", from_start=True, quiet=True)
    assert [row["step"] for row in other.metrics] == [0, 1, 2]
