"""A checkpoint is due by time: at most five minutes of work at risk, at most 2% of the time for saving."""

import os
import signal
from pathlib import Path

import pytest

from tests.run.stage import write_recipe
from tests.run.test_signals import read_until, running
from tests.run.test_train import UNMEASURED
from turnwise.run.save_clock import is_due_by_time
from turnwise.training.update import checkpoint


@pytest.mark.parametrize(
    ("unsaved", "step", "save", "is_due"),
    [
        (290, 10, 1, False),
        (291, 10, 1, True),  # the next step would make 301 seconds
        (240, 240, 1, True),  # steps of four minutes: after every one
        (5, 3600, 0.1, True),
        (240, 240, 10, False),  # ten seconds are 2% of five hundred
        (499, 240, 10, False),
        (500, 240, 10, True),
        (300, 1, 30, False),  # saving takes half a minute: every 25 minutes
        (1499, 1, 30, False),
        (1500, 1, 30, True),
    ],
)
def test_known_cases(unsaved: float, step: float, save: float, is_due: bool) -> None:
    assert is_due_by_time(unsaved, step, save) is is_due


def test_a_run_that_is_killed_between_two_checkpoints_by_steps_has_one_by_time(tmp_path: Path) -> None:
    run = {"num_steps": 500, "checkpoint_every": 500}
    recipe = write_recipe(tmp_path, run=run, **UNMEASURED)
    program = f"""
import sys
from turnwise.run import save_clock
save_clock.MAX_SECONDS_AT_RISK, save_clock.MAX_SHARE_OF_SAVING = 0.1, 1.0
from turnwise.cli import main
sys.argv = ["turnwise", "train", {str(recipe)!r}]
main()
"""
    with running("-c", program) as process:
        read_until(process, "step    3/500")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    found = checkpoint.latest(tmp_path / "runs" / "run" / "checkpoints")
    assert found is not None
    assert found.step >= 2
