"""Cached texts survive faults of the disk: each is asked for again."""

from pathlib import Path

import pytest

from turnwise.system.files.text_cache import TextCache


def test_a_damaged_text_is_asked_for_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = TextCache(tmp_path, "reply")
    cache.keep("abcd", "hello\n")
    assert cache.find("abcd") == "hello\n"
    (tmp_path / "ab" / "abcd.txt").write_bytes(b"\xff")
    assert cache.find("abcd") is None
    assert "asked for again" in caplog.text
    (tmp_path / "cd").write_text("a file in the way")
    cache.keep("cdef", "hello")
    assert "cannot be kept" in caplog.text
