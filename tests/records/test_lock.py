"""A run folder has one writer, and readers can tell without taking the lock."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.system.files.lock import Lock, holder_elsewhere, is_held

HOLD = """
import os, sys, time
from pathlib import Path
from turnwise.system.files.lock import Lock
lock = Lock(Path(sys.argv[1]))
if not os.fork():
    print(os.getpid(), flush=True)  # by then, the child has let go of the lock
time.sleep(60)
"""


def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    lock = Lock(path)
    assert is_held(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match=f"being written to by process {os.getpid()} on {platform.node()} "):
        Lock(path)
    lock.release()
    lock.release()
    assert not is_held(path)
    Lock(path).release()


def test_a_killed_process_frees_its_lock_although_a_child_of_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(ValueError, match=f"process {holder.pid} on"):
                Lock(path)
            holder.kill()
            holder.wait()
            Lock(path).release()
        finally:
            os.kill(child, 9)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, False),
        ({"process": 1}, True),
        ({"process": 1, "host": "elsewhere"}, False),
        ({"process": -1}, False),
    ],
    ids=["ended", "of another user", "of another machine", "impossible"],
)
def test_the_holder_in_the_file_counts_if_it_is_a_live_process_of_this_machine(
    tmp_path: Path, changed: dict[str, object], expected: bool
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    holder = {"process": ended.pid, "host": platform.node(), "since": "now", **changed}
    (tmp_path / "lock").write_text(json.dumps(holder))
    assert is_held(tmp_path / "lock") is expected
    is_elsewhere = holder["host"] == "elsewhere"
    assert holder_elsewhere(tmp_path / "lock") == ("process 1 on elsewhere since now" if is_elsewhere else "")


def test_a_lock_file_that_cannot_be_read_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("[1]")
    assert not is_held(tmp_path / "lock")
