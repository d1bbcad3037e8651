"""Ctrl-C on a running `turnwise train`: the first finishes the step and saves, the second stops at once."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests import warm
from tests.run.stage import write_recipe
from tests.run.test_train import UNMEASURED
from tests.test_cli import Ran, turnwise
from turnwise.records.folder import RunFolder
from turnwise.records.run_facts import DIED, read_facts
from turnwise.training.update import checkpoint

ROOT = Path(__file__).parents[2]
LONG = {
    "run": {"num_steps": 500, "checkpoint_every": 1},
    "rollout": {"group_size": 16, "tokens_per_turn": 60, "num_parallel_episodes": 2},
    **UNMEASURED,
}
"""Steps of several seconds, so that a signal comes in the middle of one."""


def train(*arguments: str) -> Ran:
    """`turnwise train` to its end; the tests' own rewards can be imported."""
    return turnwise("train", *arguments, cwd=ROOT, env={"HOME": os.environ["HOME"]})


def training(*arguments: str, python: str = "") -> AbstractContextManager["subprocess.Popen[str]"]:
    return running("-m", "turnwise", "train", *arguments, python=python)


@contextmanager
def running(*arguments: str, python: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Python in a separate process; it and its children are gone afterwards."""
    process = subprocess.Popen(
        [python or warm.heavy(), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"{text!r} never came:\n{seen}")


def state(folder: Path) -> tuple[str, str]:
    """The run's state and its reason, as the dashboard shows them."""
    facts = read_facts(folder)
    return facts.state, facts.reason


def test_the_first_finishes_the_step_saves_and_says_how_to_resume(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with training(str(write_recipe(tmp_path, run={"num_steps": 500}, **UNMEASURED))) as process:
        read_until(process, "step    2/500")
        process.send_signal(signal.SIGINT)
        rest = read_until(process, "resume with")
        assert process.wait(timeout=60) == 3
    assert "finishing this step" in rest
    assert f"turnwise train --resume {folder}" in rest
    found = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    assert f"stopped after step {found.step}:" in rest
    assert state(folder) == ("stopped", "you asked it to stop (Ctrl-C)")
    resumed = train("--resume", str(folder), "--set", f"run.num_steps={found.step + 1}")
    assert resumed.code == 0, resumed
    assert f"resumed after step {found.step}" in resumed.out
    assert f"step {found.step + 1:>4}/{found.step + 1}" in resumed.out
    text = RunFolder.read(folder).metrics.read_text()
    assert text.count('"update"') == found.step + 1, "no step is learned from twice or left out"


def test_the_second_stops_at_once_and_leaves_the_last_checkpoint_good(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with training(str(write_recipe(tmp_path, **LONG))) as process:
        read_until(process, "step    1/500")
        process.send_signal(signal.SIGTERM)  # as a cluster's scheduler would
        read_until(process, "finishing this step")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    found = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    assert found.step >= 1
    reason = f"you asked it to stop (SIGTERM), at once: what came after step {found.step} is lost"
    assert state(folder) == ("stopped", reason)
    assert (folder / "training.log").read_text().endswith(f" WARNING stopped: {reason}\n")


def test_the_second_does_not_wait_for_an_update(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 5}, **UNMEASURED)
    # an update of an hour in the real command; a line says that it has begun
    program = f"""
import time
from turnwise.training.update.trainer import Trainer
def update(self, samples, **more):
    print("updating", flush=True)
    time.sleep(3600)
Trainer.update = update
from turnwise.cli import main
import sys
sys.argv = ["turnwise", "train", {str(recipe)!r}]
main()
"""
    with running("-c", program) as process:
        read_until(process, "updating")
        process.send_signal(signal.SIGINT)
        read_until(process, "finishing this step")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not (tmp_path / "runs" / "run" / "lock").read_text(), "what was open is closed"


def test_a_run_that_was_killed_is_not_shown_as_running(tmp_path: Path) -> None:
    recipe, folder = write_recipe(tmp_path, **LONG), tmp_path / "runs" / "run"
    with training(str(recipe)) as process:
        read_until(process, "training tasks in")
        assert state(folder) == ("running", "")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    deadline = time.monotonic() + 20  # a fork ends a moment after the process that asked for it
    while state(folder)[0] == "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert state(folder) == ("died", DIED)
    assert (folder / "training.log").read_text(), "the log up to then is kept"
