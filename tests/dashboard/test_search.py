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


def test_an_index_of_an_older_version_is_rebuilt(folder: RunFolder) -> None:
    play(folder)
    index = index_of(folder)
    with contextlib.closing(tables.connect(index.path)) as connection:
        connection.execute("ALTER TABLE episodes DROP COLUMN messages")
        connection.execute(f"PRAGMA user_version = {tables.VERSION - 1}")
    assert found(index_of(folder), "total") == ["sum"]
