"""A run's log: which records reach the file, and in what form."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.records.sample_run import run_program
from turnwise.records.run_log import RunLog
from turnwise.system.redaction import Redaction
from turnwise.system.terminal import ON_SCREEN

logger = logging.getLogger("turnwise.tests")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "training.log"


@contextmanager
def logging_to(path: Path, *secrets: str) -> Iterator[None]:
    log = RunLog(path, Redaction(secrets))
    try:
        yield
    finally:
        log.close()


def test_an_entry_is_on_disk_at_once(path: Path) -> None:
    with logging_to(path):
        logger.info("now")
        assert path.read_text().endswith("INFO turnwise.tests: now\n")
        assert path.stat().st_mode & 0o777 == 0o600


def test_no_text_can_look_like_an_entry_or_control_a_terminal(path: Path) -> None:
    with logging_to(path):
        logger.info("said\n2026-01-01 00:00:00 +0000 ERROR forged\r\x1b[2J \u202e", extra=ON_SCREEN)
    first, second = path.read_text().splitlines()
    assert first.endswith(" INFO said")
    assert second == "    2026-01-01 00:00:00 +0000 ERROR forged\ufffd\ufffd[2J \ufffd"


def test_secrets_are_removed_from_messages_and_tracebacks(path: Path) -> None:
    with logging_to(path, "hunter2hunter2"):
        try:
            raise ValueError("the key hunter2hunter2 is wrong")
        except ValueError:
            logger.exception("with %s", "hunter2hunter2")
    text = path.read_text()
    assert "hunter2" not in text
    assert "with [redacted]" in text
    assert "ValueError: the key [redacted] is wrong" in text


def test_an_exception_in_a_thread_is_logged_and_still_printed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: printed.append(str(args.exc_value)))

    def fail() -> None:
        raise RuntimeError("the thread is gone")

    with logging_to(path):
        thread = threading.Thread(target=fail, name="worker")
        thread.start()
        thread.join()
    assert "ERROR thread worker failed" in path.read_text()
    assert "RuntimeError: the thread is gone" in path.read_text()
    assert printed == ["the thread is gone"]


def test_the_stack_of_a_crash_in_native_code_is_logged(path: Path) -> None:
    done = run_program(f"""
import ctypes
from pathlib import Path
from turnwise.system.redaction import Redaction
from turnwise.records.run_log import RunLog
log = RunLog(Path({str(path)!r}), Redaction())
def crash():
    ctypes.string_at(0)
crash()
""")
    assert done.returncode < 0
    assert "Segmentation fault" in path.read_text()
    assert "in crash" in path.read_text()
