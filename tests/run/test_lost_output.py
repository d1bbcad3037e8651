"""A closed terminal or a broken pipe ends a running `turnwise train` as Ctrl-C does: it saves and logs."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import warm
from tests.run.stage import write_recipe
from tests.run.test_signals import ROOT, read_until, running, state, train, training
from tests.run.test_train import UNMEASURED
from turnwise.training.update import checkpoint

RARELY: dict[str, object] = {"run": {"num_steps": 500, "checkpoint_every": 500}, **UNMEASURED}


def num_saved(folder: Path) -> int:
    """The steps in the last checkpoint; the run's log has a line for each, and the ending."""
    found = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    log = (folder / "training.log").read_text()
    for step in range(1, found.step + 1):
        assert f"step {step:>4}/500" in log
    assert f"stopped after step {found.step}: " in log
    assert f"resume with: turnwise train --resume {folder}\n" in log
    return found.step


def test_a_reader_that_ends_early_ends_the_run_after_its_step(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    piped = f"{warm.heavy()} -m turnwise train {write_recipe(tmp_path, **RARELY)} | head -1"
    command = ["bash", "-o", "pipefail", "-c", piped]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (3, "")
    assert ran.stdout.startswith("run ")
    assert num_saved(folder) == 1
    assert state(folder) == ("stopped", "its output is gone (stdout: Broken pipe)")
    resumed = train("--resume", str(folder), "--set", "run.num_steps=2")
    assert resumed.code == 0, resumed
    assert "resumed after step 1" in resumed.out


def test_ctrl_c_that_also_ends_the_reader_is_one_request(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with training(str(write_recipe(tmp_path, **RARELY))) as process:
        read_until(process, "step    1/500")
        assert process.stdout is not None
        process.stdout.close()  # as `tee` does, which gets the same Ctrl-C
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 3
    assert num_saved(folder) >= 1


def test_hang_ups_are_one_request(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    with training(str(write_recipe(tmp_path, **RARELY))) as process:
        read_until(process, "step    1/500")
        process.send_signal(signal.SIGHUP)  # the shell and the kernel both send one
        read_until(process, "finishing this step")
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 3
    assert num_saved(folder) >= 1
    assert state(folder) == ("stopped", "its terminal was closed (SIGHUP)")


@contextmanager
def on_terminal(*command: str) -> Iterator[tuple[int, int]]:
    """A process that leads the session of a terminal: its id, and the terminal's other end."""
    process, terminal = pty.fork()
    if not process:
        os.chdir(ROOT)
        os.execv(command[0], command)
    try:
        yield process, terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)


def test_a_closed_terminal_ends_the_run_after_its_step(tmp_path: Path) -> None:
    recipe, folder = str(write_recipe(tmp_path, **RARELY)), tmp_path / "runs" / "run"
    with on_terminal(warm.heavy(), "-m", "turnwise", "train", recipe) as (process, terminal):
        shown = ""
        while "step 1/500" not in shown:  # the panel's head
            shown += os.read(terminal, 4096).decode(errors="replace")
        os.close(terminal)
        deadline = time.monotonic() + 60
        while not (ended := os.waitpid(process, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 3
    assert num_saved(folder) >= 1


def test_under_nohup_a_run_outlives_its_reader(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 4}, **UNMEASURED)
    program = f"""
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
from turnwise.cli import main
sys.argv = ["turnwise", "train", {str(recipe)!r}]
main()
"""
    with running("-c", program) as process:
        read_until(process, "step    1/4")
        assert process.stdout is not None
        process.stdout.close()
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 0
    folder = tmp_path / "runs" / "run"
    assert state(folder) == ("finished", "")
    log = (folder / "training.log").read_text()
    assert "Broken pipe: the run goes on without it" in log
    assert "step    4/4" in log
