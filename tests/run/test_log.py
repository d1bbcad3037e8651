"""training.log and ended.json: what a run said and how it ended, whatever ended it."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.run.stage import write_recipe
from tests.run.test_signals import read_until, training
from turnwise.dashboard.run_facts import DIED, read_facts
from turnwise.tracking.ending import read_ending

TIMED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} (INFO|WARNING|ERROR) (.*)")
UNMEASURED = {"evaluation": {"before_and_after": False}}


def ended(recipe: Path, *arguments: str) -> tuple[int, str, Path]:
    """Exit code, all output, and the run's folder."""
    with training(str(recipe), *arguments) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        code = process.wait(timeout=120)
    return code, said, recipe.parent / "runs" / "run"


def entries(folder: Path) -> list[tuple[str, str]]:
    """Level and text of every entry; lines that go on with one are indented."""
    found: list[tuple[str, str]] = []
    for line in (folder / "training.log").read_text().splitlines():
        if line.startswith("    "):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line[4:]}")
            continue
        match = TIMED.fullmatch(line)
        assert match is not None, line
        found.append((match[1], match[2]))
    return found


def state(folder: Path) -> tuple[str, str]:
    """As the page has it."""
    facts = read_facts(folder)
    return facts.state, facts.reason


def with_reward(recipe: Path, name: str) -> Path:
    recipe.write_text(recipe.read_text().replace("even_ids", name))
    return recipe


@pytest.mark.parametrize("arguments", [(), ("--quiet",), ("--json",)])
def test_the_log_of_a_run_that_went_well_has_every_line_once(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 2})
    code, said, folder = ended(recipe, *arguments)
    assert code == 0, said
    texts = [text for _, text in entries(folder)]
    for beginning in (
        f"run {folder}",
        f"model {tmp_path / 'model'} on cpu, tuning lora",
        "6 training tasks in ",
        "started: servers, ",
        "started: trainer in ",
        "the held-out tasks, before: success",
        "step    1/2  success",
        "step    2/2  success",
        "turnwise.run.training_run: saved a checkpoint after step 2",
        "the held-out tasks, after: success",
        "finished 2 steps in ",
    ):
        assert sum(text.startswith(beginning) for text in texts) == 1, (beginning, texts)
    assert not [text for text in texts if "\x1b" in text]
    if not arguments:
        shown = [line for line in said.splitlines() if line and not line.startswith(("│", "╭", "╰"))]
        assert [line for line in shown if not any(line in text for text in texts)] == []
    assert (folder / "training.log").stat().st_mode & 0o777 == 0o600
    assert state(folder) == ("finished", "")


def test_the_log_of_a_run_that_an_alarm_halted_names_the_alarm_and_its_advice(tmp_path: Path) -> None:
    code, said, folder = ended(write_recipe(tmp_path, health={"halt": ["truncation"]}, **UNMEASURED))
    assert code == 3, said
    [(_, alarm)] = [entry for entry in entries(folder) if entry[0] == "ERROR"]
    assert alarm.startswith("  truncation: truncation/rate is ")
    assert "Try: raise rollout.tokens_per_turn" in alarm
    texts = [text for _, text in entries(folder)]
    assert "halted by the alarm truncation after step 1" in texts
    assert f"resume with: turnwise train --resume {folder}" in texts
    how, why = state(folder)
    assert how == "halted"
    assert why.startswith("alarm truncation: truncation/rate is ")


def test_the_log_of_a_run_that_a_broken_reward_ended_has_the_traceback(tmp_path: Path) -> None:
    code, said, folder = ended(with_reward(write_recipe(tmp_path, **UNMEASURED), "broken"))
    assert code == 1, said
    [(_, crash)] = [entry for entry in entries(folder) if entry[0] == "ERROR"]
    assert crash.startswith("crashed: RuntimeError: reward 'tests.run.own_rewards:broken' failed on ")
    assert 'return {"even": even_ids(trajectory)}["odd"]' in crash
    assert entries(folder)[-1][1].endswith(f"turnwise train --resume {folder}")
    assert said.count("Traceback") == crash.count("Traceback"), "the terminal has it once as well"
    how, why = state(folder)
    assert how == "crashed"
    assert "KeyError: 'odd'" in why


def test_a_server_that_does_not_start_is_the_reason_without_its_key(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    program = "import os, sys; sys.exit('no entry with ' + os.environ['SOME_API_KEY'] + ' \\x1b[31m')"
    block = {"command": sys.executable, "args": ["-c", program], "env": {"SOME_API_KEY": "hunter2hunter2"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))
    code, _, folder = ended(recipe)
    assert code == 2
    [(_, crash)] = [entry for entry in entries(folder) if entry[0] == "ERROR"]
    assert crash.startswith("crashed: ValueError: ")
    assert "no entry with" in crash
    assert "Traceback" in crash
    how, why = state(folder)
    assert how == "crashed"
    assert "notebook" in why
    for file in ("training.log", "ended.json"):
        text = (folder / file).read_text()
        assert "hunter2" not in text
        assert "\x1b" not in text


def test_infrastructure_that_is_down_for_good_is_the_reason(tmp_path: Path) -> None:
    code, _, folder = ended(with_reward(write_recipe(tmp_path, **UNMEASURED), "unreachable"))
    assert code == 2
    levels = [level for level, _ in entries(folder)]
    assert levels.count("ERROR") == 1
    how, why = state(folder)
    assert how == "crashed"
    assert "the provider does not answer" in why
    assert f"resume with: turnwise train --resume {folder}" in why


def test_a_resumed_run_has_no_end_until_it_ends_again(tmp_path: Path) -> None:
    recipe = with_reward(write_recipe(tmp_path, run={"num_steps": 1}, **UNMEASURED), "broken")
    _, _, folder = ended(recipe)
    text = (folder / "recipe.json").read_text()
    (folder / "recipe.json").write_text(text.replace("broken", "even_ids"))
    with training("--resume", str(folder), "--trust") as process:  # its recipe was edited
        read_until(process, "training tasks in")
        assert read_ending(folder / "ended.json") is None
        assert state(folder) == ("running", "")
        assert process.wait(timeout=120) == 0
    assert state(folder) == ("finished", "")
    texts = [text for _, text in entries(folder)]
    assert texts.count(f"run {folder}") == 2, "the log goes on where it was"
    assert [text for text in texts if text.startswith("crashed: ")]


LONG: dict[str, Any] = {
    "run": {"num_steps": 500},
    "rollout": {"group_size": 16, "tokens_per_turn": 60, "num_parallel_episodes": 2},
    **UNMEASURED,
}


def test_who_stopped_it_is_kept(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 500}, **UNMEASURED)
    folder = tmp_path / "runs" / "run"
    with training(str(recipe)) as process:
        read_until(process, "step    1/500")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 3
    assert state(folder) == ("stopped", "you asked it to stop (SIGTERM)")


def test_a_run_that_was_stopped_at_once_says_so(tmp_path: Path) -> None:
    recipe, folder = write_recipe(tmp_path, **LONG), tmp_path / "runs" / "run"
    with training(str(recipe)) as process:
        read_until(process, "training tasks in")
        process.send_signal(signal.SIGINT)
        read_until(process, "finishing this step")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    how, why = state(folder)
    assert (how, why) == ("stopped", "you asked it to stop (Ctrl-C), at once: the current step is lost")
    assert entries(folder)[-1] == ("WARNING", f"stopped: {why}")


def test_a_run_that_was_killed_is_not_shown_as_running(tmp_path: Path) -> None:
    recipe, folder = write_recipe(tmp_path, **LONG), tmp_path / "runs" / "run"
    with training(str(recipe), python=sys.executable) as process:
        read_until(process, "training tasks in")
        assert state(folder) == ("running", "")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    assert state(folder) == ("died", DIED)
    assert entries(folder), "what it had said is there"
