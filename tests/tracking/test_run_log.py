"""A run's log: what reaches the file, and in what form."""

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from turnwise.tracking.run_log import ON_SCREEN, RunLog

logger = logging.getLogger("turnwise.tests")


def written(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_no_text_can_pass_for_an_entry_or_act_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "training.log"
    log = RunLog(path, ())
    logger.info("said\n2026-01-01 00:00:00 +0000 ERROR forged\r\x1b[2J \u202e", extra=ON_SCREEN)
    log.close()
    first, second = written(path)
    assert first.endswith(" INFO said")
    assert second == "    2026-01-01 00:00:00 +0000 ERROR forged\ufffd\ufffd[2J \ufffd"


def test_secrets_are_removed_from_messages_and_tracebacks(tmp_path: Path) -> None:
    path = tmp_path / "training.log"
    log = RunLog(path, ["hunter2hunter2"])
    try:
        raise ValueError("the key hunter2hunter2 is wrong")
    except ValueError:
        logger.exception("with %s", "hunter2hunter2")
    log.close()
    assert "hunter2" not in path.read_text()
    assert "ValueError: the key [removed] is wrong" in path.read_text()
    assert "with [removed]" in path.read_text()


def test_an_entry_is_on_disk_before_the_next_line_of_code(tmp_path: Path) -> None:
    path = tmp_path / "training.log"
    log = RunLog(path, ())
    logger.info("now")
    assert written(path)[0].endswith("INFO turnwise.tests: now")
    assert path.stat().st_mode & 0o777 == 0o600
    log.close()


def test_what_ends_a_thread_is_in_the_log_and_still_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "training.log", list[str]()
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(str(args.exc_value)))

    def fail() -> None:
        raise RuntimeError("the thread is gone")

    log = RunLog(path, ())
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    log.close()
    assert "ERROR thread worker failed" in path.read_text()
    assert "RuntimeError: the thread is gone" in path.read_text()
    assert seen == ["the thread is gone"]


def test_the_stack_of_a_process_that_native_code_ends_is_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "training.log"
    program = f"""
import ctypes
from pathlib import Path
from turnwise.tracking.run_log import RunLog
log = RunLog(Path({str(path)!r}), ())
def crash():
    ctypes.string_at(0)
crash()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode < 0
    assert "Segmentation fault" in path.read_text()
    assert "in crash" in path.read_text()
