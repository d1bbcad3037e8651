"""One episode explains itself: malformed turns, results, refused arguments and the colours of tokens."""

import json

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    result,
    turn,
)
from turnwise.dashboard.views.malformed import place_of
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.models.chat import hermes
from turnwise.types import Cause, Reward, Turn

FAILED = Reward(0.0, {"outcome": 0.0})


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


ROWS = [{"id": 12345678901234567890 + number, "item": f"item {number}"} for number in range(57)]
RESULT = json.dumps({"orders": ROWS, "price": 51.90, "page": {"next": None, "of": [1, 2]}}).replace(
    "51.9", "51.90"
)


NOT_DRAWN = [
    *("[" * 50_000, '{"a": 1', '{"a": 1} x', "[1,]", "{'a': 1}", '{"a":' * 40 + "1" + "}" * 40),
    json.dumps({"k": "x" * 300_000}),
]


SCHEMA = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "page": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
    "required": ["symbol"],
    "additionalProperties": False,
}
REFUSED = {
    '{"symbol": 5, "page": {}}': ['"symbol": 5', "symbol"],
    '{"symbol": "ACE", "page": {"size": "ten"}}': ['"size": "ten"', "size"],
    '{"symbl": "ACE", "other": 1}': ['"symbl": "ACE"', '"other": 1', "symbl", "other"],
    "{}": [],
}
"""By arguments: what is marked in them and in the error, in this order."""


def refusal(arguments: str) -> Turn:
    with pytest.raises(BadArguments) as raised:
        ArgumentChecker("quote", SCHEMA, may_guess=False).check(json.loads(arguments))
    refused = result(f"error: {raised.value}", Cause.BAD_ARGUMENTS)
    return turn(0, calls=[("quote", json.loads(arguments), refused)])
