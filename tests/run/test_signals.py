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
from turnwise.training.update import checkpoint

ROOT = Path(__file__).parents[2]


def training(*arguments: str, python: str = "") -> AbstractContextManager["subprocess.Popen[str]"]:
    return running("-m", "turnwise", "train", *arguments, python=python)


@contextmanager
def running(*arguments: str, python: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Python in a process of its own; whatever it started is gone afterwards."""
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


def test_the_first_finishes_the_step_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 500}, evaluation={"before_and_after": False})
    with training(str(recipe)) as process:
        read_until(process, "step    2/500")
        process.send_signal(signal.SIGINT)
        rest = read_until(process, "resume with")
        assert process.wait(timeout=60) == 3
    folder = tmp_path / "runs" / "run"
    assert "finishing this step" in rest
    assert f"turnwise train --resume {folder}" in rest
    found = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    assert f"stopped after step {found.step}:" in rest
    more = f"run.num_steps={found.step + 1}"
    with training("--resume", str(folder), "--set", more) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(timeout=60) == 0, said
    assert f"resumed after step {found.step}" in said
    assert f"step {found.step + 1:>4}/{found.step + 1}" in said


def test_the_second_stops_at_once_and_leaves_the_last_checkpoint_good(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        run={"num_steps": 500, "checkpoint_every": 1},
        rollout={"group_size": 16, "tokens_per_turn": 60, "num_parallel_episodes": 2},
        evaluation={"before_and_after": False},
    )
    with training(str(recipe)) as process:
        read_until(process, "step    1/500")
        process.send_signal(signal.SIGTERM)  # as a cluster's scheduler would
        read_until(process, "finishing this step")
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert time.monotonic() - asked < 30
    found = checkpoint.latest(tmp_path / "runs" / "run" / "checkpoints")
    assert found is not None
    assert found.step >= 1


def test_the_second_waits_for_no_update(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 5}, evaluation={"before_and_after": False})
    # an update of an hour, in the real command; a line says that it has begun
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
