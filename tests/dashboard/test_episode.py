"""One episode explains itself: malformed turns, results, refused arguments and the colours of tokens."""

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
)
from turnwise.dashboard.views.malformed import place_of
from turnwise.models.chat import hermes

BROKEN = {
    'I call.\n<tool_call>{"name": "quote", "arguments": {"symbol": "ACE" "limit": 3}}</tool_call>': '"limit"',
    '<tool_call>{"name": "quote", "arguments": {}} and more</tool_call>': "and",
    '<tool_call>{"name": "quote", "arguments": {}}': "<tool_call>",
    '<tool_call>{"name": "quote", "arguments": 5}</tool_call>': '"arguments": 5',
    "It was <tool_response>51.9</tool_response>": "<tool_response>51.9",
    "<think>I wonder": "<think>",
    '<think><tool_call>{"name": "a", "arguments": {}}</tool_call></think>': "<tool_call>",
    "x</tool_call>": "</tool_call>",
    "<tool_call>5</tool_call>": "<tool_call>5",
    "": "",
}
"""By completion: what stands at the place of the parser's complaint."""


@pytest.mark.parametrize("written", BROKEN)
def test_the_place_of_the_parsers_complaint_is_found(written: str) -> None:
    error = hermes.read_turn(written).error
    assert error is not None
    place = place_of(written, error.kind)
    assert (place is None) == (written == "")
    assert place is None or written[place:].startswith(BROKEN[written])


@pytest.mark.parametrize("text", ["", "<tool_call>" + "[" * 100_000, "<tool_call>" + "9" * 10_000, HOSTILE])
def test_any_text_has_a_place_or_none(text: str) -> None:
    for kind in ("bad_json", "unclosed", "truncated", "faked_response", "bad_call", "no such kind"):
        assert (place_of(text, kind) or 0) <= len(text)
