"""Failed starts are kept in the folder of runs: without secrets, at most 200, of several processes."""

import json
import multiprocessing
import os
import re
from pathlib import Path

import pytest

from turnwise.records.failed_starts import FILE, MAX_STARTS, read_failed_starts, recording_failed_start


def fail_once(runs: Path, words: str) -> None:
    command = "turnwise train a.toml"
    with (
        pytest.raises(ValueError, match=re.escape(words)),
        recording_failed_start(runs, recipe_file="a.toml", name="a", command=command),
    ):
        raise ValueError(words)


def fail_often(runs: Path, prefix: str) -> None:
    for number in range(40):
        fail_once(runs, f"{prefix}{number}")


def test_a_failure_is_recorded_in_words_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    fail_once(tmp_path, "no entry with hunter2hunter2 \x1b[31m")
    [start] = read_failed_starts(tmp_path)
    assert (start.recipe_file, start.name, start.command) == ("a.toml", "a", "turnwise train a.toml")
    assert start.error.startswith("no entry with [redacted]")
    assert "\x1b" not in start.error
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_last_ones_are_kept_also_of_several_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=fail_often, args=(tmp_path, f"{name} ")) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    found = [start.error for start in read_failed_starts(tmp_path)]
    assert sorted(found) == sorted(f"{name} {number}" for name in "abc" for number in range(40))
    for number in range(MAX_STARTS):
        fail_once(tmp_path, f"d {number}")
    assert [start.error for start in read_failed_starts(tmp_path)] == [f"d {n}" for n in range(MAX_STARTS)]
    assert len((tmp_path / FILE).read_text().splitlines()) == MAX_STARTS


def test_damaged_lines_are_left_out_and_nothing_makes_the_command_fail_otherwise(tmp_path: Path) -> None:
    good = {"time": 1.0, "recipe_file": "", "name": "a", "command": "", "error": "x" * 10_000}
    early = json.dumps({**good, "time": -1}).encode()
    bad = [b"{", b"[]", b'{"time": "NaN"}', b"\xff\xfe", b"[" * 100_000, early]
    torn = json.dumps(good).encode()[:-5]
    (tmp_path / FILE).write_bytes(b"\n".join([*bad, json.dumps(good).encode(), torn]))
    assert [len(start.error) for start in read_failed_starts(tmp_path)] == [2_002]
    fail_once(tmp_path, "after a torn line")
    assert [start.error for start in read_failed_starts(tmp_path)][-1] == "after a torn line"
    fail_once(tmp_path / "absent", "no folder")
    assert not (tmp_path / "absent").exists()
    os.mkfifo(tmp_path / "fifo")
    for target in (tmp_path / "fifo", tmp_path / "elsewhere"):
        (tmp_path / FILE).unlink()
        (tmp_path / FILE).symlink_to(target)
        fail_once(tmp_path, "not written through a link")
    assert not (tmp_path / "elsewhere").exists()
    assert read_failed_starts(tmp_path) == []
