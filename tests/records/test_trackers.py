"""Trackers that fail, hang, crash or are slow: the run is not delayed, and its log counts what was lost."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants, descriptors
from tests.records.sample_run import (
    HOSTILE,
    SECRET,
    begin,
    groups,
    is_success,
    log_of,
    play,
    resumed,
    run_program,
    tracked,
    wait_until,
)
from turnwise.config import Recipe, TrackerConfig
from turnwise.records.folder import RunFolder
from turnwise.records.trackers.trackers import project_of

OWN = "tests.records.own_trackers"


def own(name: str, close_seconds: float = 60, **options: Any) -> dict[str, Any]:
    return {"kind": f"{OWN}:{name}", "close_seconds": close_seconds, **options}


def kept(folder: RunFolder) -> list[list[Any]]:
    """What the tracker received, record by record."""
    file = folder.path / "kept.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_tracker_receives_every_record_in_order_whatever_its_library_prints(tmp_path: Path) -> None:
    folder = tracked(tmp_path, own("Chatty"), 0, 1)
    records = kept(folder)
    steps = ["episodes", "log", "log", "histogram"] * 2
    assert [record[0] for record in records] == ["start", *steps, "evaluation", "close"]
    assert records[0][1:4] == ["turnwise", "run", 7]
    assert records[2] == ["log", 0, {"reward/mean": 0.5, "success/rate": 0.25}]
    assert records[4] == ["histogram", 0, "ratio", [0.9, 1.0, 1.1], [1, 5, 7, 2]]
    assert str(records[7][2]["loss/policy"]) == "nan"
    assert records[7][2]["alarm/truncation"] == 1.0
    assert records[9] == ["evaluation", "after", 2, {"success": 0.5, "success/lookups": 1.0}]
    assert "lost" not in log_of(folder)
    question = records[1][2][1]  # of the hostile episode
    assert question.startswith(HOSTILE[:30])
    assert "characters left out" in question
    assert len(question.encode()) < 10_000


def test_a_tracker_gets_its_own_keys_and_a_limited_number_of_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    with begin(tmp_path, own("Keeping", episodes_per_step=3)) as folder:
        folder.trackers.episodes(0, groups() * 4, is_success)
        folder.trackers.episodes(1, groups(), is_success)
    start, *records = kept(folder)
    assert [len(record[2]) for record in records if record[0] == "episodes"] == [3, 2]
    environ = start[4]
    assert "OPENAI_API_KEY" not in environ
    assert (environ["WANDB_API_KEY"], environ["PATH"]) == (SECRET, os.environ["PATH"])


def test_a_slow_tracker_does_not_delay_the_run_and_what_does_not_fit_its_queue_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = own("Slow", options={"seconds": 0.1}, episodes_per_step=5)
    with begin(tmp_path, slow, own("Keeping")) as folder:
        monkeypatch.setattr(folder.trackers._outboxes[0][0], "_room", 20)
        wait_until(lambda: len(kept(folder)) == 2)  # both have started
        for number in range(1000):
            folder.trackers.log(number, {"a": 1.0}, {}, ())
    log = log_of(folder)
    assert f"tracker {OWN}:Slow is too slow" in log
    [line] = [line for line in log.splitlines() if "records lost" in line and "Slow" in line]
    num_lost = int(line.split(" of 1000 records lost")[0].split()[-1])
    assert num_lost > 500, "the run waited for the slow tracker"
    assert f"({num_lost} did not fit its queue" in line
    num_kept = sum(record[0] == "log" for record in kept(folder))
    assert num_kept == 1000 - num_lost + 1000, "the other tracker loses nothing"


def test_errors_are_counted_and_logged_once_without_the_key_that_they_quote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    folder = tracked(tmp_path, own("Failing"), 0, 1, 2)
    log = log_of(folder)
    assert f"tracker {OWN}:Failing: 6 of 10 records lost (6 failed)" in log
    assert "ConnectionError: 401 for WANDB_API_KEY=[redacted] [31mno entry" in log, "one printable line"
    assert log.count("ConnectionError") == 1
    assert SECRET not in log
    assert len(kept(folder)) == 6, "episodes and evaluation were written"


def test_a_tracker_that_cannot_start_costs_the_run_nothing_but_its_records(tmp_path: Path) -> None:
    with begin(tmp_path, own("Unstartable", close_seconds=600)) as folder:
        wait_until(lambda: "PermissionError" in log_of(folder))
        play(folder, 0)
        assert len(folder.metrics.read_text().splitlines()) == 2
    assert f"tracker {OWN}:Unstartable: 4 of 4 records lost" in log_of(folder)
    assert "no API key configured" in log_of(folder)


def test_a_hanging_tracker_is_killed_after_close_seconds_with_all_its_processes(
    tmp_path: Path,
) -> None:
    before = descendants(), descriptors()
    folder = begin(tmp_path, own("Hanging", close_seconds=1))
    folder.log(0, "update", {"a": 1.0})
    wait_until(lambda: len(kept(folder)) == 2)
    _, child, grandchild = kept(folder)[1]
    assert {child, grandchild} <= descendants()
    for step in range(100):
        folder.trackers.episodes(step, groups(), is_success)  # more than a pipe holds
    started = time.monotonic()
    folder.close()
    assert time.monotonic() - started > 0.9
    wait_until(lambda: descendants() <= before[0], 10)
    assert set(descriptors()) <= set(before[1])
    assert "had not finished after 1 s and was killed" in log_of(folder)
    assert "101 of 101 records lost (101 were still waiting)" in log_of(folder)


def test_a_tracker_that_hangs_while_closing_loses_nothing_it_received(tmp_path: Path) -> None:
    folder = begin(tmp_path, own("HangingAtEnd", close_seconds=2))
    play(folder, 0)
    wait_until(lambda: len(kept(folder)) == 6)
    folder.close()
    assert "0 of 4 records lost: it had not finished" in log_of(folder)


def test_a_crashing_tracker_ends_neither_the_run_nor_other_trackers(tmp_path: Path) -> None:
    with begin(tmp_path, own("Crashing"), own("Keeping")) as folder:
        folder.log(0, "update", {"a": 1.0})
        wait_until(lambda: "its process ended with code -11" in log_of(folder))
        folder.log(1, "update", {"a": 1.0})
    assert "something went wrong in native code" in log_of(folder)
    assert f"tracker {OWN}:Crashing: 2 of 2 records lost" in log_of(folder)
    assert [record[1] for record in kept(folder) if record[0] == "log"] == [0, 1]


@pytest.mark.parametrize(("name", "num_records"), [("Keeping", 6), ("Hanging", 3)])
def test_after_a_killed_run_its_tracker_writes_what_it_received_and_ends(
    tmp_path: Path, name: str, num_records: int
) -> None:
    """The tracker's process sees its pipe end; one that hangs then is ended after `close_seconds`."""
    killed = run_program(f"""
import os
from pathlib import Path
from tests.records.sample_run import begin, play
folder = begin(Path({str(tmp_path)!r}), {own(name, close_seconds=1)!r})
play(folder, 0)
kept = folder.path / "kept.jsonl"
while not kept.exists() or kept.read_text().count("\\n") < {num_records}: pass
os.kill(os.getpid(), 9)
""")
    assert killed.returncode == -9, killed.stderr
    folder = RunFolder.read(tmp_path / "run")
    if name == "Hanging":
        _, *processes = kept(folder)[-1]
        assert len(processes) == 2
        wait_until(lambda: not any(map(is_running, processes)))
    else:
        wait_until(lambda: kept(folder)[-1] == ["close"])


def test_a_tracker_learns_where_a_resumed_run_continues(tmp_path: Path) -> None:
    folder = begin(tmp_path, own("Keeping"))
    folder.close()
    resumed(folder, 3)
    assert kept(folder)[-2:] == [["cut", 3], ["close"]]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "wandb",
            r"wandb needs the package 'wandb', not found; .* pip install .*\[wandb\]'",
        ),
        ("absent.module:Class", r"absent\.module:Class needs the package 'absent\.module', not found"),
    ],
)
def test_a_missing_library_is_an_error_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, message: str
) -> None:
    if kind == "wandb":
        monkeypatch.setitem(sys.modules, "wandb", None)
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.setattr(sys, "path_importer_cache", {})
        monkeypatch.delitem(sys.modules, "wandb")
        (tmp_path / "wandb").mkdir()  # the folder in which wandb keeps its runs is not the library
    with pytest.raises(ValueError, match=message):
        begin(tmp_path / "runs", kind)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("block", "variables", "project"),
    [
        ({"kind": "wandb"}, {}, "turnwise"),
        ({"kind": "wandb"}, {"WANDB_PROJECT": "ours", "WEAVE_PROJECT": "theirs"}, "ours"),
        ({"kind": "wandb", "project": "mine"}, {"WANDB_PROJECT": "ours"}, "mine"),
        ({"kind": "weave"}, {"WANDB_PROJECT": "ours", "WEAVE_PROJECT": "team/theirs"}, "team/theirs"),
        ({"kind": "weave"}, {"WANDB_PROJECT": "ours"}, "ours"),
        ({"kind": "trackio"}, {"WANDB_PROJECT": "ours"}, "ours"),
    ],
)
def test_the_project_is_that_of_the_recipe_or_of_the_environment(
    block: dict[str, Any], variables: dict[str, str], project: str
) -> None:
    assert project_of(TrackerConfig.model_validate(block), variables) == project


def test_without_trackers_no_process_is_started(tmp_path: Path) -> None:
    before = descendants()
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        folder.start_trackers()
        play(folder, 0)
        assert descendants() == before
