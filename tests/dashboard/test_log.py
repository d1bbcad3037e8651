"""The log of a run: its end, older pages by offset, search, levels, and what follows a running run."""

import os
from pathlib import Path

import pytest

from turnwise.dashboard.views.log_files import MAX_LINES, MAX_SCANNED_BYTES, LogFilter, log_files, log_page


def entry(number: int, level: str = "INFO") -> str:
    return f"2026-11-17 12:00:00 +0000 {level} turnwise.test: line {number}"


def pages(run: Path, wanted: LogFilter, limit: int = MAX_LINES) -> list[str]:
    """All lines by going from page to page, newest page first."""
    end, found = None, []
    while end != 0:
        page = log_page(run, "training.log", wanted, end=end, limit=limit)
        assert end is None or page["start"] < end, "every page goes on"
        end = page["start"]
        found = [line["text"] for line in page["lines"]] + found
    return found


def test_pages_join_to_the_whole_file(tmp_path: Path) -> None:
    lines = []
    for number in range(3_000):
        lines.append(entry(number, "ERROR" if number % 100 == 0 else "INFO"))
        lines += ["    Traceback", f"    ValueError: {'x' * (number % 700)}"] if number % 100 == 0 else []
    (tmp_path / "training.log").write_text("".join(f"{line}\n" for line in lines))
    assert pages(tmp_path, LogFilter()) == lines
    assert pages(tmp_path, LogFilter(), limit=7) == lines
    found = pages(tmp_path, LogFilter(level="error"))
    assert len(found) == 3 * 30
    assert found[:3] == lines[:3], "an entry has all its lines"
    assert pages(tmp_path, LogFilter(text="LINE 2999")) == [lines[-1]]


@pytest.mark.parametrize("content", [b"", b"\n", b"one", b"one\n", b"\n\none\n\n", b"\xff\x00\x1b[31m\n"])
def test_small_and_odd_files_are_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "training.log").write_bytes(content)
    wanted = content.decode("utf-8", "replace").split("\n")
    assert pages(tmp_path, LogFilter()) == (
        wanted[:-1] if content.endswith(b"\n") else wanted if content else []
    )


def test_a_huge_log_is_read_only_in_part(tmp_path: Path) -> None:
    log = tmp_path / "training.log"
    with log.open("wb") as file:
        file.truncate(1 << 30)  # a sparse file: one line of a gigabyte
        file.seek(0, 2)
        file.write(f"\n{entry(1)}\n{entry(2, 'ERROR')}\n".encode())
    page = log_page(tmp_path, "training.log", LogFilter(level="error"))
    assert [line["text"] for line in page["lines"]] == [entry(2, "ERROR")]
    assert page["size"] - page["start"] <= MAX_SCANNED_BYTES
    older = log_page(tmp_path, "training.log", LogFilter(), end=page["start"])
    assert 0 < older["start"] < page["start"]
    assert sum(len(line["text"]) for line in older["lines"]) < 10_000


def test_links_fifos_and_foreign_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text("secret")
    (tmp_path / "link.log").symlink_to(tmp_path / "recipe.json")
    os.mkfifo(tmp_path / "fifo.log")
    assert log_files(tmp_path) == ["fifo.log", "link.log"]
    for name in log_files(tmp_path):
        with pytest.raises(ValueError, match="not a file"):
            log_page(tmp_path, name, LogFilter())
    for name in ("recipe.json", "../x.log", "none.log"):
        with pytest.raises(LookupError):
            log_page(tmp_path, name, LogFilter())
    (tmp_path / "training.log").write_text("one\n")
    with pytest.raises(ValueError, match="level: no 'loud'"):
        log_page(tmp_path, "training.log", LogFilter(level="loud"))
