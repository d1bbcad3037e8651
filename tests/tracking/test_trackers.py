"""Trackers that fail, hang, crash or are slow: the run goes on at its own pace, and what was lost is said."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants, descriptors
from tests.tracking.played import HOSTILE, begin, groups, is_success, play
from turnwise.config import Recipe, TrackerConfig
from turnwise.tracking import outbox
from turnwise.tracking.folder import RunFolder
from turnwise.tracking.trackers import project_of

OWN = "tests.tracking.own_trackers"
SECRET = "0123456789abcdef0123456789abcdef01234567"


def own(name: str, **options: Any) -> dict[str, Any]:
    return {"kind": f"{OWN}:{name}", **options}


def kept(folder: RunFolder) -> list[list[Any]]:
    return [json.loads(line) for line in (folder.path / "kept.jsonl").read_text().splitlines()]


def log_of(folder: RunFolder) -> str:
    return (folder.path / "training.log").read_text()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def test_a_tracker_is_told_everything_in_order(tmp_path: Path) -> None:
    with begin(tmp_path, own("Keeping", close_seconds=60)) as folder:
        play(folder, 0, 1)
    told = kept(folder)
    assert [line[0] for line in told] == [
        "start",
        *("episodes", "log", "log", "histogram") * 2,
        "evaluation",
        "close",
    ]
    assert told[0][1:4] == ["turnwise", "run", 7]
    assert told[2] == ["log", 0, {"reward/mean": 0.5, "success/rate": 0.25}]
    assert told[4] == ["histogram", 0, "ratio", [0.9, 1.0, 1.1], [1, 5, 7, 2]]
    assert str(told[7][2]["loss/policy"]) == "nan"
    assert told[7][2]["alarm/truncation"] == 1.0
    assert told[9] == ["evaluation", "after", 2, {"success": 0.5, "success/lookups": 1.0}]
    assert "lost" not in log_of(folder)


def test_what_is_hostile_comes_short_and_whole(tmp_path: Path) -> None:
    with begin(tmp_path, own("Keeping", close_seconds=60)) as folder:
        folder.trackers.episodes(0, groups(), is_success)
    question = kept(folder)[1][2][1]
    assert question.startswith(HOSTILE[:30])
    assert len(question) < 10_000
    assert "characters left out" in question
    question.encode()


def test_only_so_many_episodes_are_sent(tmp_path: Path) -> None:
    with begin(tmp_path, own("Keeping", close_seconds=60, episodes_per_step=3)) as folder:
        folder.trackers.episodes(0, groups() * 4, is_success)
        folder.trackers.episodes(1, groups(), is_success)
    assert [len(record[2]) for record in kept(folder) if record[0] == "episodes"] == [3, 2]


def test_a_slow_one_costs_the_run_no_time_and_what_does_not_fit_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "ROOM", 20)
    slow = own("Slow", options={"seconds": 0.2}, episodes_per_step=0, close_seconds=60)
    with begin(tmp_path, slow, own("Keeping", episodes_per_step=64)) as folder:  # room for 2,048
        fast = folder.path / "kept.jsonl"
        wait_until(lambda: fast.exists() and fast.read_text().count("start") == 2)
        started = time.monotonic()
        for number in range(1000):
            folder.trackers.log(number, {"a": 1.0}, {}, ())
        assert time.monotonic() - started < 20, "a thousand records of 0.2 s each are not waited for"
    counts = [sum(record[0] == "log" for record in kept(folder))]
    said = log_of(folder)
    assert f"tracker {OWN}:Slow is too slow" in said
    [line] = [line for line in said.splitlines() if "records lost" in line and "Slow" in line]
    num_lost = int(line.split(" of 1000 records lost")[0].split()[-1])
    assert 800 < num_lost < 1000
    assert f"({num_lost} did not fit its queue" in line
    # the others lose nothing by it
    assert counts == [1000 - num_lost + 1000]


def test_errors_are_counted_and_the_key_they_quote_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    with begin(tmp_path, own("Failing", close_seconds=60)) as folder:
        play(folder, 0, 1, 2)
    said = log_of(folder)
    assert f"tracker {OWN}:Failing: 6 of 10 records lost (6 failed)" in said
    assert "ConnectionError: 401 for WANDB_API_KEY=[removed] [31mno entry" in said, "on one line, and tame"
    assert said.count("ConnectionError") == 1, "not with every record"
    assert SECRET not in said
    assert len(kept(folder)) == 6, "episodes and evaluation were written"


def test_keys_of_others_are_not_given_to_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    with begin(tmp_path, own("Keeping", close_seconds=60)) as folder:
        pass
    given = kept(folder)[0][4]
    assert "OPENAI_API_KEY" not in given
    assert given["WANDB_API_KEY"] == SECRET
    assert given["PATH"] == os.environ["PATH"]


def test_one_that_cannot_start_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    with begin(tmp_path, own("Unstartable")) as folder:
        wait_until(lambda: "PermissionError" in log_of(folder))
        play(folder, 0)
        assert len((folder.metrics).read_text().splitlines()) == 2
        started = time.monotonic()
    assert time.monotonic() - started < 20, "there is nothing to wait for"
    assert f"tracker {OWN}:Unstartable: 4 of 4 records lost" in log_of(folder)
    assert "no API key configured" in log_of(folder)


def test_one_that_hangs_is_waited_for_so_long_and_killed_with_all_it_started(tmp_path: Path) -> None:
    before = descendants(), descriptors()
    folder = begin(tmp_path, own("Hanging", close_seconds=1))
    wait_until((folder.path / "kept.jsonl").exists)
    folder.log(0, "update", {"a": 1.0})
    wait_until(lambda: len(kept(folder)) == 2)
    _, child, grandchild = kept(folder)[1]
    assert {child, grandchild} <= descendants()
    for step in range(100):
        folder.trackers.episodes(step, groups(), is_success)  # more than a pipe holds
    started = time.monotonic()
    folder.close()
    assert 0.9 < time.monotonic() - started < 30
    wait_until(lambda: descendants() <= before[0], 10)
    assert set(descriptors()) <= set(before[1])
    said = log_of(folder)
    assert "had not finished after 1 s and was killed" in said
    assert "101 of 101 records lost (101 were still waiting)" in said


def test_one_that_hangs_at_its_end_loses_nothing_that_it_had_taken(tmp_path: Path) -> None:
    folder = begin(tmp_path, own("HangingAtEnd", close_seconds=4))
    play(folder, 0)
    wait_until(lambda: (folder.path / "kept.jsonl").exists() and len(kept(folder)) == 6)
    started = time.monotonic()
    folder.close()
    assert time.monotonic() - started < 40
    assert "0 of 4 records lost: it had not finished" in log_of(folder)


def test_one_that_crashes_takes_nothing_with_it(tmp_path: Path) -> None:
    with begin(tmp_path, own("Crashing"), own("Keeping", close_seconds=60)) as folder:
        wait_until((folder.path / "kept.jsonl").exists)
        folder.log(0, "update", {"a": 1.0})
        wait_until(lambda: "its process ended with code -11" in log_of(folder))
        folder.log(1, "update", {"a": 1.0})
    said = log_of(folder)
    assert "something went wrong in native code" in said
    assert f"tracker {OWN}:Crashing: 2 of 2 records lost" in said
    assert [record[1] for record in kept(folder) if record[0] == "log"] == [0, 1]


def test_what_a_library_prints_and_reads_is_kept_from_our_pipes(tmp_path: Path) -> None:
    with begin(tmp_path, own("Chatty", close_seconds=60)) as folder:
        play(folder, 0)
    assert [record[0] for record in kept(folder)] == [
        "start",
        "episodes",
        "log",
        "log",
        "histogram",
        "evaluation",
        "close",
    ]


def test_a_tracker_writes_what_it_was_told_although_the_run_was_killed(tmp_path: Path) -> None:
    """The process that trains is gone at once; the tracker's own sees its pipe end, and closes."""
    program = f"""
import os
from pathlib import Path
from tests.tracking.played import begin, play
folder = begin(Path({str(tmp_path)!r}), {{"kind": "{OWN}:Keeping"}})
play(folder, 0)
kept = folder.path / "kept.jsonl"
while not kept.exists() or kept.read_text().count("\\n") < 6: pass
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert killed.returncode == -9
    folder = RunFolder.read(tmp_path / "run")
    wait_until(lambda: kept(folder)[-1] == ["close"])


def test_one_that_hangs_does_not_outlive_a_run_that_was_killed(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from tests.tracking.played import begin, play
folder = begin(Path({str(tmp_path)!r}), {{"kind": "{OWN}:Hanging", "close_seconds": 1}})
play(folder, 0)
kept = folder.path / "kept.jsonl"
while not kept.exists() or "processes" not in kept.read_text(): pass
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert killed.returncode == -9
    [(_, *left)] = [record for record in kept(RunFolder.read(tmp_path / "run")) if record[0] == "processes"]
    assert len(left) == 2
    wait_until(lambda: not any(map(is_running, left)))


def test_a_resumed_run_tells_where_it_goes_on(tmp_path: Path) -> None:
    begin(tmp_path, own("Keeping", close_seconds=60)).close()
    with RunFolder.open(tmp_path / "run") as folder:
        folder.start_trackers()
        folder.cut(3)
    assert kept(folder)[-2:] == [["cut", 3], ["close"]]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            "wandb",
            r"trackers: wandb needs the package 'wandb', not found; .* pip install 'turnwise\[wandb\]'",
        ),
        ("absent.module:Class", r"absent\.module:Class needs the package 'absent\.module', not found"),
    ],
)
def test_a_library_that_is_not_there_is_one_error_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, says: str
) -> None:
    if kind == "wandb":
        monkeypatch.setitem(sys.modules, "wandb", None)
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.setattr(sys, "path_importer_cache", {})
        monkeypatch.delitem(sys.modules, "wandb")
        (tmp_path / "wandb").mkdir()  # the folder that runs are kept in is no library
    with pytest.raises(ValueError, match=says):
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
def test_the_project_is_the_recipes_or_the_environments(
    block: dict[str, Any], variables: dict[str, str], project: str
) -> None:
    assert project_of(TrackerConfig.model_validate(block), variables) == project


def test_without_trackers_nothing_is_started(tmp_path: Path) -> None:
    before = descendants()
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        folder.start_trackers()
        play(folder, 0)
        assert descendants() == before
