"""Episodes are found by the words in their questions, answers, calls and tool results."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    bad,
    episode,
    good,
    malformed,
    new_run,
    play_step,
    result,
    task,
    turn,
)
from tests.dashboard.serving import Serve, look, texts, wait_for_texts
from turnwise.dashboard.command import open_runs, write_export
from turnwise.dashboard.index import search_index, tables
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.episode_list import page as page_of
from turnwise.dashboard.views.listing import Filter
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.models.places import EMBEDDED_FOLDER
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Cause, Reward

PIECES = Pieces(EMBEDDED_FOLDER, "embedded")
FAILED = Reward(0.0, {"outcome": 0.0})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with new_run(tmp_path) as folder:
        yield folder


def called(name: str, answer: str, content: str, cause: Cause = Cause.OK) -> StoredEpisode:
    turns = [turn(0, calls=[("get_order", {"path": "/srv/data/orders-7.csv"}, result(content, cause))])]
    return StoredEpisode(episode(task(name), [*turns, turn(1, answer)]), FAILED)


def play(folder: RunFolder) -> None:
    sum_of = called("sum", "The total is 185.48.", '{"id": 12345, "state": "shipped late"}')
    slow = called("slow", "I do not know.", "no reply", Cause.TIMEOUT)
    written = malformed('<tool_call>{"name": "cancel_order", "arguments": {}</tool_call>')
    broken = StoredEpisode(episode(task("broken"), [written]), FAILED)
    play_step(folder, 0, [sum_of, slow, good(task("plain")), called("evil", HOSTILE, HOSTILE), broken])


def index_of(folder: RunFolder) -> Index:
    index = Index(folder.path, folder.path.parent / "cache")
    index.refresh()
    search_index.fill(index, PIECES, seconds=60)
    return index


def found(index: Index, typed: str, **conditions: Any) -> list[str]:
    return [row["task"] for row in page_of(index, Filter(search=typed, **conditions), sort="oldest")["rows"]]


FOUND = {
    "185.48": ["sum"],
    "185": ["sum"],
    "85.4": [],
    "get_order": ["sum", "slow", "evil"],
    "/srv/data/orders-7.csv": ["sum", "slow", "evil"],
    "orders-7 SHIPPED": ["sum"],
    '"state shipped"': ["sum"],
    '"shipped state"': [],
    "shipped state": ["sum"],
    "What does plain cost?": ["plain"],
    "gnp.exe": ["evil"],
    '"name": "cancel_order"': ["broken"],
    "no-such-word": [],
}
"""By what is typed: the tasks of the episodes that are found."""


def test_words_phrases_numbers_names_and_paths_are_found_as_typed(folder: RunFolder) -> None:
    play(folder)
    index = index_of(folder)
    assert {typed: found(index, typed) for typed in FOUND} == FOUND
    assert found(index, "know", error="timeout", tool="get_order") == ["slow"]
    assert found(index, "total", error="any") == []


@pytest.mark.parametrize(
    "typed",
    [
        *(
            '"',
            '""',
            "*",
            "a*",
            "^a",
            "(",
            "a) OR b",
            "NEAR(a b)",
            "body:x",
            "-a",
            "a AND",
            "NOT",
            "{a}",
            "+",
        ),
        *(
            "\x00",
            "a\x00b",
            "\ud800",
            "'; DROP TABLE episodes; --",
            HOSTILE,
            "x " * 5_000,
            '"a' * 500,
            "é" * 9_999,
        ),
    ],
)
def test_any_input_is_only_text_to_search_for(folder: RunFolder, typed: str) -> None:
    play(folder)
    answer = page_of(index_of(folder), Filter(search=typed))
    assert answer["search"]["num_searched"] == 5


def test_a_search_without_words_or_with_too_many_says_so(folder: RunFolder) -> None:
    play(folder)
    index = index_of(folder)
    nothing = page_of(index, Filter(search="?!"))
    assert (nothing["total"], nothing["search"]["problem"]) == (0, "There is no word to search for.")
    many = page_of(index, Filter(search=" ".join(f"w{number}" for number in range(50))))
    assert many["search"]["problem"] == "Only the first 32 of 50 words are searched for."


def test_new_episodes_are_added_and_those_of_a_cut_file_are_not_found(folder: RunFolder) -> None:
    play_step(folder, 0, [good(task("first"))])
    index = index_of(folder)
    assert not search_index.fill(index, PIECES, seconds=60), "nothing is read twice"
    play_step(folder, 1, [bad(task("second"))])
    index.refresh()
    state = page_of(index, Filter(search="cost"))["search"]
    assert (state["num_searched"], state["num_episodes"]) == (1, 2)
    search_index.fill(index, PIECES, seconds=60)
    assert found(index, "cost") == ["first", "second"]
    os.truncate(folder.trajectories(1), 0)
    play_step(folder, 1, [good(task("third"))])
    index.refresh()
    assert found(index, "know") == [], "its words are not those of the episode that has its place"
    search_index.fill(index, PIECES, seconds=60)
    assert found(index, "cost") == ["first", "third"]


def test_without_fts5_the_page_says_so_and_everything_else_works(
    page: Any, serve: Serve, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_WORDS", tables._WORDS.replace("fts5", "no_such_module"))
    play(folder)
    look(page, serve(folder.path), "trajectories", search="total", tool="get_order")
    assert "SQLite has no FTS5" in page.inner_text("#searched")
    assert texts(page, "#list tbody tr td:nth-child(2)") == ["sum", "slow", "evil"], "by the other filter"


def test_a_hit_is_marked_and_leads_to_its_turn(page: Any, serve: Serve, folder: RunFolder) -> None:
    play(folder)
    served = serve(folder.path)
    look(page, served, "tools")
    page.keyboard.press("/")
    page.wait_for_selector("main[data-view='trajectories'] #filter-search:focus")
    page.keyboard.type('total "185.48"')
    page.keyboard.press("Enter")
    page.wait_for_selector("#list mark")
    assert texts(page, "#list .excerpt") == ["answer, turn 2: The total is 185.48."]
    assert texts(page, "#list mark") == ["total", "185.48"]
    page.click(".excerpt .place")
    page.wait_for_selector("#turn-2.at")
    look(page, served, "trajectories", search="gnp.exe")
    assert "&amp; ␛[31mred␛[0m ⟨U+202E⟩gnp.exe" in page.inner_text("#list .excerpt")


def test_the_page_says_how_far_the_search_is(
    page: Any, serve: Serve, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(folder)
    monkeypatch.setattr(search_index, "fill", lambda index, pieces, *, seconds: False)
    page.goto(f"{serve(folder.path).url}#/trajectories?search=total")
    page.wait_for_selector("#searched")
    assert page.inner_text("#searched") == "Searched 0 of 5 episodes so far."
    page.focus("#filter-search")
    monkeypatch.undo()
    page.wait_for_selector("#list mark")
    assert page.query_selector("#searched") is None
    assert page.evaluate("document.activeElement.id") == "filter-search"


def test_an_exported_file_is_searched_too(page: Any, folder: RunFolder, tmp_path: Path) -> None:
    play(folder)
    write_export(open_runs([folder.path], tmp_path / "cache"), tmp_path / "report.html")
    page.goto(f"file://{tmp_path}/report.html#/trajectories")
    for typed, tasks in FOUND.items():
        page.fill("#filter-search", typed)
        page.press("#filter-search", "Enter")
        wait_for_texts(page, "#list tbody td:nth-child(2)", tasks)


NUMBERS = {
    **{"9": "9", "b": "185.48", "c": "$1,200.50", "d": "12%"},
    **{"e": "10 or nine", "f": "", "g": "-3 EUR", "h": "about 9"},
}
"""By task: its answer."""


@pytest.mark.parametrize("is_exported", [False, True])
def test_answers_sort_as_numbers_and_texts_come_after(
    page: Any, serve: Serve, folder: RunFolder, tmp_path: Path, is_exported: bool
) -> None:
    episodes = [StoredEpisode(episode(task(name), [turn(0, said)]), FAILED) for name, said in NUMBERS.items()]
    play_step(folder, 0, episodes)
    if is_exported:
        write_export(open_runs([folder.path], tmp_path / "cache"), tmp_path / "report.html")
    url = f"file://{tmp_path}/report.html" if is_exported else serve(folder.path).url
    for sort, wanted in (("answer", "g9dbcehf"), ("-answer", "cbd9ghef")):
        page.goto("about:blank")
        page.goto(f"{url}#/trajectories?sort={sort}")
        page.wait_for_selector("#list a")
        assert "".join(texts(page, "#list a")) == wanted


def test_an_index_of_an_older_version_is_rebuilt(folder: RunFolder) -> None:
    play(folder)
    index = index_of(folder)
    with contextlib.closing(tables.connect(index.path)) as connection:
        connection.execute("ALTER TABLE episodes DROP COLUMN messages")
        connection.execute(f"PRAGMA user_version = {tables.VERSION - 1}")
    assert found(index_of(folder), "total") == ["sum"]
