"""A run folder has one writer, and others can tell without disturbing it."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.tracking.lock import Lock, is_held


def write_holder(path: Path, **changed: object) -> Path:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    holder = {"process": int(ended.stdout), "host": platform.node(), "since": "now", **changed}
    path.write_text(json.dumps(holder))
    return path


def test_a_lock_is_held_while_its_process_lives(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    lock = Lock(path)
    assert is_held(path)
    with pytest.raises(ValueError, match="is being written to by process"):
        Lock(path)
    lock.release()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, False),
        ({"process": 1}, True),
        ({"process": 1, "host": "elsewhere"}, False),
        ({"process": -1}, False),
    ],
    ids=["ended", "another's", "another machine's", "no process"],
)
def test_what_is_written_in_a_lock_is_checked(
    tmp_path: Path, changed: dict[str, object], expected: bool
) -> None:
    assert is_held(write_holder(tmp_path / "lock", **changed)) is expected


def test_a_lock_that_cannot_be_read_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("[1]")
    assert not is_held(tmp_path / "lock")
