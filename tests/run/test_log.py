"""training.log, ended.json and the output of a run: what it printed and how it ended, whatever ended it."""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.run.stage import write_recipe
from tests.run.test_signals import read_until, state, train, training
from tests.run.test_train import UNMEASURED, lines
from tests.test_cli import Ran
from turnwise.records.ending import read_ending
from turnwise.records.failed_starts import read_failed_starts
from turnwise.records.folder import RunFolder
from turnwise.training.update import checkpoint

TIMED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} (INFO|WARNING|ERROR) (.*)")


def entries(folder: Path) -> list[tuple[str, str]]:
    """Level and text of every entry; continuation lines are indented."""
    found: list[tuple[str, str]] = []
    for line in (folder / "training.log").read_text().splitlines():
        if line.startswith("    "):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line[4:]}")
            continue
        match = TIMED.fullmatch(line)
        assert match is not None, line
        found.append((match[1], match[2]))
    return found


@pytest.mark.parametrize("option", ["", "--quiet", "--json"])
def test_a_run_that_went_well_logs_every_line_once_and_prints_what_was_asked_for(
    tmp_path: Path, option: str
) -> None:
    recipe, folder = write_recipe(tmp_path, run={"num_steps": 2}), tmp_path / "runs" / "run"
    ran = train(str(recipe), *filter(None, [option]))
    assert ran.code == 0, ran
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
        "turnwise.run.checkpoints: saved a checkpoint after step 2",
        "the held-out tasks, after: success",
        "finished 2 steps in ",
    ):
        assert sum(text.startswith(beginning) for text in texts) == 1, (beginning, texts)
    assert not [text for text in texts if "\x1b" in text]
    assert state(folder) == ("finished", "")
    said = ran.err if option == "--json" else ran.out
    assert any(words in said for words in ("It learned", "beyond chance", "It got worse"))
    if option == "--json":
        check_events([json.loads(line) for line in ran.out.splitlines()])
    elif option == "--quiet":
        assert "step    1/2" not in ran.out
    else:
        shown = (ran.out + ran.err).splitlines()
        printed = [line for line in shown if line and not line.startswith(("│", "╭", "╰"))]
        assert [line for line in printed if not any(line in text for text in texts)] == []


def check_events(events: list[dict[str, Any]]) -> None:
    """The JSON lines of two steps, measured before and after."""
    assert [event["kind"] for event in events] == ["measured", "step", "step", "measured", "summary"]
    assert [event["step"] for event in events if event["kind"] == "step"] == [0, 1]
    assert events[1]["figures"]["episodes/finished"] == 6
    assert events[-1]["heldout_success"].keys() == {"before", "after"}


@dataclass(frozen=True)
class Failing:
    """A run that cannot finish, and how it must report that."""

    code: int
    state: str
    reason: str
    """Within the reason of its state."""
    error: str
    """The beginning of its one ERROR entry."""
    within_error: str = ""
    reward: str = "even_ids"
    sections: dict[str, Any] = field(default_factory=dict)


FAILING = {
    "an alarm": Failing(
        3,
        "halted",
        "alarm truncation: truncation/rate is 1, above 0.3",
        "  truncation: truncation/rate is ",
        "Try: raise rollout.tokens_per_turn",
        sections={"health": {"halt": ["truncation"]}},
    ),
    "a broken reward": Failing(
        1,
        "crashed",
        "KeyError: 'odd'",
        "crashed: RuntimeError: reward 'tests.run.own_rewards:broken' failed on ",
        'return {"even": even_ids(trajectory)}["odd"]',
        reward="broken",
    ),
    "a provider that is down": Failing(
        2,
        "crashed",
        "the provider does not answer",
        "crashed: CollectionFailed: ",
        "groups were lost to infrastructure; the last one: ",
        reward="unreachable",
    ),
}


def run_failing(tmp_path: Path, failing: Failing) -> tuple[Ran, Path]:
    recipe = write_recipe(tmp_path, **UNMEASURED, **failing.sections)
    recipe.write_text(recipe.read_text().replace("even_ids", failing.reward))
    return train(str(recipe)), tmp_path / "runs" / "run"


@pytest.mark.parametrize("what", FAILING)
def test_a_run_that_fails_says_why_once_and_how_to_resume(tmp_path: Path, what: str) -> None:
    wanted = FAILING[what]
    ran, folder = run_failing(tmp_path, wanted)
    assert ran.code == wanted.code, ran
    how, why = state(folder)
    assert how == wanted.state
    assert wanted.reason in why
    [error] = [text for level, text in entries(folder) if level == "ERROR"]
    assert error.startswith(wanted.error)
    assert wanted.within_error in error
    assert f"turnwise train --resume {folder}" in entries(folder)[-1][1] + why
    # on the terminal a traceback only where the user's code is wrong; in the log wherever it crashed
    assert (ran.out + ran.err).count("Traceback") == (error.count("Traceback") if wanted.code == 1 else 0)
    assert ("Traceback" in error) == (wanted.state == "crashed")
    for text in (ran.out, ran.err, *((folder / name).read_text() for name in ("training.log", "ended.json"))):
        assert "\x1b" not in text
    if what == "an alarm":
        assert "halted by the alarm truncation after step 1" in [text for _, text in entries(folder)]
        assert checkpoint.latest(folder / "checkpoints") is not None
        [update] = lines(RunFolder.read(folder), "update")
        assert update["alarms"][0]["name"] == "truncation"
    if what == "a provider that is down":
        assert "warning: the provider said \ufffd[31mno" in ran.out + ran.err, "shown with its escape defused"


def test_a_start_that_fails_says_why_and_leaves_no_folder(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **UNMEASURED)
    program = "import os, sys; sys.exit('no entry with ' + os.environ['SOME_API_KEY'] + ' \\x1b[31m')"
    block = {"command": sys.executable, "args": ["-c", program], "env": {"SOME_API_KEY": "hunter2hunter2"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))
    ran = train(str(recipe))
    assert ran.code == 2
    assert "no entry with" in ran.err
    for text in (ran.out, ran.err):
        assert "Traceback" not in text
        assert "hunter2" not in text
        assert "\x1b" not in text
    assert not (tmp_path / "runs").exists()


def test_starts_that_fail_are_recorded_in_a_folder_of_runs_and_dry_runs_are_not(tmp_path: Path) -> None:
    recipe, runs = write_recipe(tmp_path, **UNMEASURED), tmp_path / "runs"
    runs.mkdir()
    program = "import os, sys; sys.exit('no entry with ' + os.environ['SOME_API_KEY'])"
    block = {"command": sys.executable, "args": ["-c", program], "env": {"SOME_API_KEY": "hunter2hunter2"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))
    commands = ([], ["--set", "tasks.train=absent.jsonl"], ["--set", "model.path=absent"])
    assert train(str(recipe), "--dry-run", *commands[1]).code > 0
    assert list(runs.iterdir()) == []
    for more in commands:
        assert train(str(recipe), *more).code == 2
    found = read_failed_starts(runs)
    assert [(start.recipe_file, start.name) for start in found] == [(recipe.name, "run")] * 3
    for start, words in zip(found, ("no entry with", "absent.jsonl", "absent"), strict=True):
        assert words in start.error
        assert "hunter2" not in start.error
        assert start.command.startswith(f"turnwise train {recipe}")
    assert [file.name for file in runs.iterdir()] == ["failed_starts.jsonl"]


def test_a_resumed_run_has_no_end_until_it_ends_again(tmp_path: Path) -> None:
    _, folder = run_failing(tmp_path, FAILING["a broken reward"])
    text = (folder / "recipe.json").read_text()
    (folder / "recipe.json").write_text(text.replace("broken", "even_ids"))
    again = ("--resume", str(folder), "--from-start", "--trust", "--set", "run.num_steps=1")  # it was edited
    with training(*again) as process:
        read_until(process, "training tasks in")
        assert read_ending(folder / "ended.json") is None
        assert state(folder) == ("running", "")
        assert process.wait(timeout=120) == 0
    assert state(folder) == ("finished", "")
    texts = [text for _, text in entries(folder)]
    assert texts.count(f"run {folder}") == 2, "the log continues"
    assert [text for text in texts if text.startswith("crashed: ")]
