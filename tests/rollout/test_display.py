"""Episodes on a terminal: text of models, tools and tasks is displayed and never interpreted."""

import re
from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.dashboard.recorded import HOSTILE, episode, good, hostile, result, task, turn
from turnwise.rollout.display import print_episode
from turnwise.rollout.store import StoredEpisode
from turnwise.types import Cause, Message, Reward

OWN = re.compile(r"\x1b\[[0-9;]*m")
"""Colour codes, the only escape sequences that the display writes."""


def printed(played: StoredEpisode) -> str:
    console = Console(file=StringIO(), width=100, force_terminal=True, color_system="standard")
    print_episode(played, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_an_episode_is_shown_turn_by_turn() -> None:
    text = OWN.sub("", printed(good(task("ace"))))
    for words in ("ace · ace/0.0", "user: What does ace cost?", "1 call: quote", "1 ok, 250 ms: 51.9"):
        assert words in text
    assert "answered · reward 1 (outcome 1, format 1) · 2 turns" in text


def test_escape_sequences_in_text_do_not_reach_the_terminal() -> None:
    of = replace(task(HOSTILE, HOSTILE), prompt=(Message("user", HOSTILE),))
    called = turn(0, HOSTILE, [(HOSTILE, {HOSTILE: HOSTILE}, result(HOSTILE, Cause.UNKNOWN_TOOL))])
    called = replace(called, parsed=replace(called.parsed, reasoning=HOSTILE))
    played = StoredEpisode(episode(of, [called]), Reward(0.0, {HOSTILE: 0.5}))
    for shown in (played, hostile(task("[red]bold[/red]"))):
        text = OWN.sub("", printed(shown))
        assert "<script>window.broken" in text
        assert not [char for char in text if char != "\n" and not char.isprintable()]
    assert "[red]bold[/red]" in text, "markup of rich is not interpreted either"


def test_a_text_of_a_million_characters_is_shortened_with_a_note() -> None:
    text = OWN.sub("", printed(hostile(task("x" * 2**20), text="x" * 2**20)))
    assert len(text) < 30_000
    assert "more characters" in text
