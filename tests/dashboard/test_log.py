"""The log of a run: its end, older pages by offset, search, levels, and what follows a running run."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import log_step, new_run
from tests.dashboard.serving import Serve, look, texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.dashboard.views.log_files import MAX_LINES, MAX_SCANNED_BYTES, LogFilter, log_files, log_page
from turnwise.records.ending import Ending, How

LOGGER = logging.getLogger("turnwise.test")


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


def test_the_log_is_searched_filtered_and_paged_in_the_page(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        for number in range(1_200):
            LOGGER.info("line %d", number)
        LOGGER.warning("a server was lost\n<b>its stderr</b>\x1b[31m")
    served = serve(folder.path)
    page.goto(f"{served.url}#/overview")
    page.wait_for_selector("main[data-view='overview']")
    page.keyboard.press("8")
    page.wait_for_selector("main[data-view='log'] #log-lines")
    lines = texts(page, "#log-lines span")
    assert len(lines) >= MAX_LINES
    assert lines[-1].strip().startswith("<b>its stderr</b>")
    page.wait_for_timeout(200)  # it is scrolled in the next frame
    at_end = "(box) => box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 4"
    assert page.eval_on_selector("#log-lines", at_end)
    page.click("#log-older")
    page.wait_for_selector("#log-newest")
    assert lines[0] not in texts(page, "#log-lines span"), "pages do not overlap"
    page.click("#log-newest")
    page.select_option("#log-level", "warning")
    page.wait_for_selector("#log-lines:not(:has(span:nth-of-type(3))) span.warn")
    assert len(texts(page, "#log-lines span")) == 2
    page.select_option("#log-level", "")
    page.fill("#log-text", "LINE 7")
    page.press("#log-text", "Enter")
    page.wait_for_selector("#log-lines mark:text-is('line 7')")
    assert len(texts(page, "#log-lines span")) == 111
    assert page.query_selector("#log-lines b") is None


def test_a_running_run_s_log_is_followed_at_its_end(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        for number in range(300):
            LOGGER.info("line %d", number)
        look(page, serve(folder.path), "log")
        for number in range(300, 350):
            LOGGER.info("line %d", number)
        LOGGER.error("the newest line")
        page.wait_for_selector("#log-lines .bad:has-text('the newest line')")
        end = page.locator("#log-lines .bad").bounding_box()
        box = page.locator("#log-lines").bounding_box()
        assert end["y"] < box["y"] + box["height"], "it stays at the end"
        page.eval_on_selector("#log-lines", "(box) => { box.scrollTop = 100; }")
        LOGGER.error("one more")
        page.wait_for_selector("#log-lines .bad >> nth=1", state="attached")
        assert page.eval_on_selector("#log-lines", "(box) => box.scrollTop") == 100, "not while one reads"


def test_a_crashed_run_leads_to_its_log_and_traceback(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        LOGGER.error("it broke")
        folder.end(Ending(How.CRASHED, "it broke", rank=3, traceback="Traceback: in rank 3"))
    served = serve(folder.path)
    for link in ("#runs a:has-text('crashed')", ".ended[data-state='crashed'] a"):
        page.goto(f"{served.url}#/overview")
        page.click(link)
        page.wait_for_selector("#log-lines .bad:has-text('it broke')")
    assert "Traceback: in rank 3" in page.inner_text("#traceback")
    page.goto("about:blank")
    out = tmp_path / "report.html"
    write_export(open_runs([folder.path], tmp_path / "cache2"), out)
    page.goto(f"{out.as_uri()}#/log")
    page.wait_for_selector("#log:has-text('The log is not part of this file')")
