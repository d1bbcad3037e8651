"""What a malformed turn is answered with: the calls that were meant, or where reading stopped."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.models.chat.hermes import read_turn
from turnwise.types import FormatError

GOOD = '{"name": "f", "arguments": {"x": true, "y": "a"}}'


def error_of(text: str) -> FormatError:
    error = read_turn(text).error
    assert error is not None
    return error


def call(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (call('{"name": "f", "arguments": {"x": True, "y": "a"}}'), "`True` is not JSON: write `true`"),
        (call("{'name': 'f', 'arguments': {'x': true, 'y': 'a'}}"), "double quotes, not in '"),
        (call('{"name": "f", "arguments": {"x": true, "y": "a",}}'), "no comma before `}`"),
        (call('{name: "f", arguments: {x: true, y: "a"}}'), "keys stand in double quotes"),
        (call('{"name": "f", "arguments": {"x": true, "y": a}}'), 'write "a"'),
        (call('{"name": "f", "arguments": {"x": true, "y": "a"}'), "`}` is missing"),
        (call('{"name": "f", "arguments": {"x": true, "y": "a"}}}'), "leave out the brackets"),
        (call('{"name": "f", "arguments": {"x": true "y": "a"}}'), "a comma is missing"),
        (call(f"```json\n{GOOD}\n```"), "leave out the ```"),
        (f"<tool_call>\n{GOOD}\n", "the closing tag after the call"),
        (f"<tool_call>{GOOD[:-1]}", "the closing tag after the call"),
        (f"{GOOD}</tool_call>", "the opening tag before the call"),
        (call(GOOD) + "</tool_call>", "the closing tag once"),
        (call('{"name": "f", "x": true, "y": "a"}'), '"arguments" is missing'),
        (call('{"name": "f", "parameters": {"x": true, "y": "a"}}'), '"arguments" in place of "parameters"'),
        (call('{"tool": "f", "input": {"x": true, "y": "a"}}'), '"name" in place of "tool"'),
        (call(json.dumps({"name": "f", "arguments": '{"x": true, "y": "a"}'})), "is an object, not text"),
        (call(json.dumps({"type": "function", "function": json.loads(GOOD)})), "only the object"),
        (call(f"[{GOOD}]"), "not in a list"),
        (f"<think>I write <tool_call>.</think>So: {call(GOOD.replace('true', 'True'))}", "`True`"),
    ],
)
def test_a_malformed_call_is_answered_with_the_call_that_was_meant(written: str, words: str) -> None:
    error = error_of(written)
    assert words.lower() in error.hint.lower()
    assert error.hint.endswith(f"The whole call: {GOOD}")


def test_every_call_of_a_turn_is_mended_and_tags_in_strings_are_text() -> None:
    other = '{"name": "g", "arguments": {"code": "a </tool_call> b", "y": None}}'
    hint = error_of(call(GOOD) + call(other)).hint
    assert hint.endswith(f"The calls: {GOOD} and {other.replace('None', 'null')}")
    assert error_of(call(f"{GOOD} {GOOD}")).hint.endswith(f"The calls: {GOOD} and {GOOD}")
    assert error_of(call('{"name": "now"}')).hint.endswith('The whole call: {"name": "now", "arguments": {}}')


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"name": "f", "arguments": {"x": "say "hi" now"}}', "a comma or `}` at character 40, after"),
        ('{"name": "f", "arguments": {"x": 2*3}}', "found `*3}}`"),
        ('{"name": "f", "arguments": {"x": NaN}}', "expected a value at character 34"),
        ('{"name": "f", "arguments": {"x": 1, "x": 2}}', '"x" is given twice'),
        ("", "expected a value at its start, found its end"),
        ('{"name": "f", "arguments": [1]}', 'a call is {"name"'),
        ('{"name": "f", "arguments": {}, "x": 1}', '"x" must stand inside "arguments"'),
    ],
)
def test_where_it_is_open_what_was_meant_the_place_and_what_is_expected_are_named(
    body: str, words: str
) -> None:
    error = error_of(call(body))
    assert words.lower() in error.hint.lower()
    assert "whole call" not in error.hint


def test_only_turns_in_which_pythons_literals_are_all_that_is_wrong_can_be_mended_by_themselves() -> None:
    literal = error_of(call('{"name": "f", "arguments": {"x": [True, None], "y": "True"}}'))
    assert [dict(each.arguments) for each in literal.mended] == [{"x": [True, None], "y": "True"}]
    for written in (
        call("{'name': 'f', 'arguments': {'x': True}}"),
        call('{"name": "f"}'),
        call(GOOD) * 2 + "</tool_call>",
    ):
        assert error_of(written).mended == ()


def test_thoughts_and_words_before_a_malformed_call_are_not_part_of_it() -> None:
    one, other = error_of(f"<think>hm</think>Again: {call('{')}"), error_of(f"Now: {call('{')}")
    assert one.written == other.written == call("{")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab'\"\\{}<\n é", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), JSON, max_size=3))
def test_a_python_dict_is_mended_to_the_same_values(arguments: dict[str, Any]) -> None:
    written = call(repr({"name": "f", "arguments": arguments}))
    if (error := read_turn(written).error) is None:
        return
    whole = error.hint.rpartition("The whole call: ")[2]
    assert json.loads(whole) == {"name": "f", "arguments": arguments}


@settings(deadline=None, max_examples=200)
@given(st.text("<tool_call>{}[]\"'\\,: nameTruearguments`1", max_size=80))
def test_no_text_is_mended_into_anything_but_readable_calls_and_none_raises(text: str) -> None:
    for written in (text, call(text), call(GOOD[:20] + text)):
        error = read_turn(written).error
        if error is not None and "The whole call: " in error.hint:
            assert read_turn(call(error.hint.rpartition("The whole call: ")[2])).error is None
