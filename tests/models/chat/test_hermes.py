"""The Hermes form as text: every kind of malformed turn has its error, and no call is invented or lost."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.models.chat.hermes import MAX_DEPTH, TAGS, read_turn, write_call, write_turn
from turnwise.types import FormatErrorKind as Kind
from turnwise.types import ToolCall

GOOD = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'


def call(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def nested(depth: int) -> str:
    return '{"name": "f", "arguments": {"x": ' + "[" * depth + "]" * depth + "}}"


def test_a_call_is_read_with_the_text_and_thought_around_it() -> None:
    parsed = read_turn(f"<think>\nHm.\n</think>\n\nLooking.\n{GOOD}")
    assert parsed.calls == (ToolCall("call_0", "f", {"x": 1}),)
    assert (parsed.text, parsed.reasoning, parsed.error) == ("Looking.", "Hm.", None)


def test_a_turn_may_have_no_call_or_several() -> None:
    parsed = read_turn("  It is 42 < 43 & {not json}.\n")
    assert (parsed.text, parsed.calls, parsed.error) == ("It is 42 < 43 & {not json}.", (), None)
    parsed = read_turn(f"{GOOD}\nand\n{GOOD}{call(json.dumps({'name': 'h', 'arguments': {}}))}")
    assert [(c.id, c.name) for c in parsed.calls] == [("call_0", "f"), ("call_1", "f"), ("call_2", "h")]
    assert parsed.text == "and"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Kind.EMPTY),
        ("<think>\n\n</think>\n\n", Kind.EMPTY),
        (call("{'name': 'f'}"), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": 1,}}'), Kind.BAD_JSON),
        (call('```json\n{"name": "f", "arguments": {}}\n```'), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": "a\nb"}}'), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": NaN}}'), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": 1e999}}'), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}"), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": 1, "x": 2}}'), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {"x": "\\ud800"}}'), Kind.BAD_JSON),
        (call(nested(MAX_DEPTH)), Kind.BAD_JSON),
        (call(nested(200_000)), Kind.BAD_JSON),
        (call("[" * 200_000), Kind.BAD_JSON),
        (call('{"name": "f", "arguments": {}} {"name": "g", "arguments": {}}'), Kind.BAD_JSON),
        (call(""), Kind.BAD_JSON),
        (call('"f"'), Kind.BAD_CALL),
        (call('[{"name": "f", "arguments": {}}]'), Kind.BAD_CALL),
        (call('{"arguments": {}}'), Kind.BAD_CALL),
        (call('{"name": "", "arguments": {}}'), Kind.BAD_CALL),
        (call('{"name": "f", "arguments": {}, "parameters": {"x": 1}}'), Kind.BAD_CALL),
        ('{"name": "f", "arguments": {}}</tool_call>', Kind.BAD_CALL),
        (f"{GOOD}</tool_call>", Kind.BAD_CALL),
        (call('{"name": "f"}'), Kind.ARGUMENTS_NOT_OBJECT),
        (call('{"name": "f", "arguments": [1]}'), Kind.ARGUMENTS_NOT_OBJECT),
        (call('{"name": "f", "arguments": "{\\"x\\": 1}"}'), Kind.ARGUMENTS_NOT_OBJECT),
        ('<tool_call>{"name": "f", "arguments": {}}', Kind.UNCLOSED),
        ("<tool_call>", Kind.UNCLOSED),
        (f'<tool_call>{{"name": "f", "arguments": {{}}}}\n{GOOD}', Kind.UNCLOSED),
        ("<think>and then", Kind.UNCLOSED),
        ("Answer. <think>", Kind.UNCLOSED),
        (f"{GOOD}\n<tool_response>\n12\n</tool_response>\nIt is 12.", Kind.FAKED_RESPONSE),
        ("<tool_response>12</tool_response>", Kind.FAKED_RESPONSE),
        ("It is 12.</tool_response>", Kind.FAKED_RESPONSE),
        (f"<think>{GOOD}</think>The price is 12.", Kind.CALL_IN_THOUGHT),
        (f"<think>{GOOD}", Kind.CALL_IN_THOUGHT),
        ("<think>I write <tool_call> now</think>", Kind.CALL_IN_THOUGHT),
        (f"So: {GOOD}</think>The price is 12.", Kind.CALL_IN_THOUGHT),
        (f"Hi <think>again {GOOD}</think> there", Kind.CALL_IN_THOUGHT),
    ],
)
def test_a_malformed_turn_is_a_typed_error_and_makes_no_call(text: str, kind: Kind) -> None:
    parsed = read_turn(text)
    assert parsed.error is not None
    assert (parsed.error.kind, parsed.calls) == (kind, ())
    assert 0 < len(parsed.error.message) < 200


@pytest.mark.parametrize("text", ["", "words", GOOD, f"{GOOD}<tool_call>{{", "<think>long", f"<think>{GOOD}"])
def test_a_turn_that_was_cut_off_is_truncated_whatever_it_holds(text: str) -> None:
    parsed = read_turn(text, is_cut=True)
    assert parsed.error is not None
    assert (parsed.error.kind, parsed.calls) == (Kind.TRUNCATED, ())


@pytest.mark.parametrize("bad", [call("{"), call('{"name": "f"}'), "<tool_call>{", "<tool_response>"])
def test_one_malformed_call_stops_the_good_ones_of_its_turn(bad: str) -> None:
    for text in (f"{GOOD}{bad}", f"{bad}{GOOD}", f"{GOOD}{bad}{GOOD}"):
        parsed = read_turn(text)
        assert parsed.error is not None
        assert parsed.calls == ()


def test_a_tag_inside_a_json_string_is_only_text() -> None:
    code = f"print('</tool_call>') # <think> </think> <tool_response> {GOOD}"
    parsed = read_turn(call(json.dumps({"name": "run", "arguments": {"code": code}})))
    assert parsed.error is None
    assert [dict(c.arguments) for c in parsed.calls] == [{"code": code}]


def test_tags_and_calls_in_a_thought_do_not_count_if_a_call_or_an_answer_follows() -> None:
    parsed = read_turn(f"<think>maybe {GOOD.replace('f', 'g', 1)} or {GOOD}</think>{GOOD}")
    assert (len(parsed.calls), parsed.error) == (1, None)
    parsed = read_turn("<think>the <tool_call> gave <tool_response>12</tool_response></think>It is 12.")
    assert (parsed.text, parsed.error) == ("It is 12.", None)


def test_a_thought_that_the_prompt_opened_ends_at_its_close() -> None:
    assert read_turn(f"hm</think>{GOOD}", starts_in_thought=True).reasoning == "hm"
    parsed = read_turn(GOOD, starts_in_thought=True)
    assert parsed.error is not None
    assert parsed.error.kind is Kind.CALL_IN_THOUGHT


def test_nesting_up_to_the_limit_is_read_and_a_number_keeps_all_its_digits() -> None:
    assert read_turn(call(nested(MAX_DEPTH - 2))).error is None
    big = int("9" * 4000)
    [found] = read_turn(write_call(ToolCall("", "f", {"x": big, "y": -0.1, "z": 1e300}))).calls
    assert found.arguments == {"x": big, "y": -0.1, "z": 1e300}


# --- properties ---------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from([*TAGS, "<|im_end|>", "\\", '"', "}\n</tool_call>"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CALLS = st.builds(
    ToolCall,
    id=st.just(""),
    name=TEXT.filter(lambda name: bool(name.strip())),
    arguments=st.dictionaries(TEXT, JSON, max_size=4),
)
NOISE = st.lists(
    st.sampled_from(
        [*TAGS, GOOD, '{"name": "f", "arguments": {}}', '"', "{", "}", "[", "\\u", "NaN", " ", "\n"]
    )
    | TEXT,
    max_size=12,
).map("".join)


def same(left: Any, right: Any) -> bool:
    """1, 1.0 and True are equal in Python and not in JSON."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@settings(max_examples=50)
@given(calls=st.lists(CALLS, min_size=1, max_size=3), text=TEXT)
def test_written_calls_are_read_back_the_same(calls: list[ToolCall], text: str) -> None:
    parsed = read_turn(write_turn(text, calls))
    assert parsed.error is None
    assert [c.name for c in parsed.calls] == [c.name for c in calls]
    assert all(same(found.arguments, c.arguments) for found, c in zip(parsed.calls, calls, strict=True))
    assert parsed.text == text.strip()


@settings(max_examples=50)
@given(
    call=CALLS,
    indent=st.sampled_from([None, 2]),
    is_ascii=st.booleans(),
    space=st.sampled_from(["", " ", "\n\n"]),
)
def test_json_is_read_however_it_is_spelled(
    call: ToolCall, indent: int | None, is_ascii: bool, space: str
) -> None:
    body = json.dumps({"arguments": call.arguments, "name": call.name}, indent=indent, ensure_ascii=is_ascii)
    [found] = read_turn(f"<tool_call>{space}{body}{space}</tool_call>").calls
    assert found.name == call.name
    assert same(found.arguments, call.arguments)


@settings(max_examples=200)
@given(text=NOISE, is_thinking=st.booleans(), is_cut=st.booleans())
def test_noise_never_raises_and_a_call_is_never_invented(text: str, is_thinking: bool, is_cut: bool) -> None:
    parsed = read_turn(text, starts_in_thought=is_thinking, is_cut=is_cut)
    assert not (parsed.calls and parsed.error)
    assert not (is_cut and parsed.error is None)
    # Whatever is called stands in the text as a whole call, outside any thought.
    outside = re.sub("^.*</think>", "", text, flags=re.DOTALL)
    bodies = [
        body.strip()
        for part in (text, outside)
        for body in re.findall("(?<=<tool_call>)(.*?)(?=</tool_call>)", part, re.DOTALL)
    ]
    for found in parsed.calls:
        assert {"name": found.name, "arguments": found.arguments} in [_json(body) for body in bodies]


@given(text=NOISE)
def test_no_call_is_lost_without_an_error(text: str) -> None:
    parsed = read_turn(text)
    if parsed.error is None:
        outside = re.sub("^.*</think>", "", text, flags=re.DOTALL)
        assert len(parsed.calls) == outside.count("<tool_call>")


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
