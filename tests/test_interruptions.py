"""A closed terminal or a broken pipe ends `eval`, `rollout` and `sft`, and what they finished is on disk."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.rollout.stage import task
from tests.run.stage import write_recipe
from tests.run.test_signals import ROOT, read_until, running
from tests.shown import shown_task, sound_setup
from turnwise.rollout.measure.report import read_report
from turnwise.rollout.store import read_episodes
from turnwise.tasks.load import save


def many_tasks(tmp_path: Path) -> Path:
    """A recipe with more test tasks than a test waits for."""
    recipe = write_recipe(tmp_path, rollout={"tokens_per_turn": 60, "num_parallel_episodes": 1})
    save([task(f"held{number}") for number in range(300)], tmp_path / "test.jsonl")
    return recipe


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_evaluation_that_is_stopped_reports_the_tasks_that_it_has_played(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "eval.json"
    program = f"""
import sys
from turnwise.run import playing
from turnwise.rollout.store import TrajectoryWriter
write = TrajectoryWriter.write
def told(self, played):
    write(self, played)
    print("written", flush=True)
TrajectoryWriter.write = told
from turnwise.cli import main
sys.argv = ["turnwise", "eval", {str(many_tasks(tmp_path))!r}, "-k", "1", "--out", {str(out)!r}]
main()
"""
    with running("-c", program) as process:
        read_until(process, "written")
        process.send_signal(number)
        if number is signal.SIGHUP:
            process.send_signal(number)  # the shell and the kernel both send one
        said = read_until(process, "stopped after")
        assert process.wait(timeout=60) == 130
    report = read_report(out)
    assert 0 < len(report.episodes) < 300
    assert report.num_tasks_asked == 300
    assert f"stopped after {len(report.episodes)} of 300 tasks: {out}" in said


def test_a_rollout_whose_reader_ends_is_stopped_and_keeps_its_episodes(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    words = f"rollout {many_tasks(tmp_path)} --tasks {tmp_path / 'test.jsonl'} --groups 300 --show 300"
    piped = f"{warm.heavy()} -m turnwise {words} --out {out} --set rollout.group_size=1 | head -1"
    command = ["bash", "-o", "pipefail", "-c", piped]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 130, ran
    num_played = len(list(read_episodes(out)))
    assert 0 < num_played < 300
    assert f"stopped: {num_played} episodes are in {out}" in ran.stderr


def test_an_sft_that_is_stopped_writes_the_model_of_its_steps(tmp_path: Path) -> None:
    folder = sound_setup(tmp_path)
    save([shown_task()], folder / "train.jsonl")
    out, epochs = folder / "warm", "sft.num_epochs=100000"
    arguments = ("sft", str(folder / "recipe.toml"), "--no-verify", "--out", str(out), "--set", epochs)
    with running("-m", "turnwise", *arguments) as process:
        read_until(process, "step    1/100000")
        process.send_signal(signal.SIGHUP)
        said = read_until(process, "stopped after")
        assert process.wait(timeout=60) == 130
    steps = json.loads((out / "sft.json").read_text())["steps"]
    assert f"stopped after {len(steps)} steps of learning: {out}" in said
    assert (out / "config.json").exists()


def test_a_command_whose_reader_has_ended_says_nothing_about_it() -> None:
    piped = f"{warm.light()} -m turnwise config --help | head -1"
    ran = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.count("\n") == 1
    assert ran.stderr == ""
