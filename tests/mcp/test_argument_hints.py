"""What refused arguments are answered with: how to write them, checked against the schema."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments

SCHEMA = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "period": {"enum": ["annual", "quarterly"]},
        "live": {"type": "boolean"},
        "ids": {"type": "array", "items": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
    },
    "required": ["symbol"],
    "additionalProperties": False,
}


def hint_of(arguments: dict[str, Any], schema: Any = SCHEMA, **options: bool) -> str:
    with pytest.raises(BadArguments) as caught:
        ArgumentChecker("quote", schema, **options).check(arguments)
    return caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"symbol": 5}, {"symbol": "5"}),
        ({"symbol": "A", "limit": "3"}, {"symbol": "A", "limit": 3}),
        ({"symbol": "A", "limit": 3.5, "live": "True"}, None),
        ({"symbol": "A", "live": "True"}, {"symbol": "A", "live": True}),
        ({"symbol": "A", "live": "no", "limit": "7"}, {"symbol": "A", "live": False, "limit": 7}),
        ({"symbol": "A", "period": "Annual"}, {"symbol": "A", "period": "annual"}),
        ({"symbol": "A", "ids": "[1, 2]"}, {"symbol": "A", "ids": [1, 2]}),
        ({"symbol": "A", "ids": 3}, {"symbol": "A", "ids": [3]}),
        ({"symbol": "A", "ids": "1, 2"}, {"symbol": "A", "ids": [1, 2]}),
        ({"symbol": "A", "maybe": "4"}, {"symbol": "A", "maybe": 4}),
        ({"symbol": "A", "limit": None}, {"symbol": "A"}),
        ({"symbol": "A", "filter": {"tags": ["x", 7]}}, {"symbol": "A", "filter": {"tags": ["x", "7"]}}),
        ({"symbl": 5}, {"symbol": "5"}),
        ({"symbol": "A", "limit": "many"}, None),
        ({"symbol": "A", "period": "weekly"}, None),
    ],
)
def test_arguments_that_were_certainly_meant_are_written_out(
    arguments: dict[str, Any], right: dict[str, Any] | None
) -> None:
    hint = hint_of(arguments)
    if right is None:
        assert "The arguments: " not in hint
    else:
        assert hint.endswith(f"The arguments: {json.dumps(right)}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, 'For example: {"symbol": "text"}'),
        ({"symbol": "A", "period": "quartely"}, 'one of "annual", "quarterly"; the nearest is "quarterly"'),
        (
            {"symbol": "A", "limit": "many"},
            '`limit` is of type integer, such as 1. For example: {"symbol": "A", "limit": 1}',
        ),
        ({"symbol": "A", "ids": ["x"]}, "`ids.0` is of type integer"),
        ({"symbol": "A", "unheard": 1}, 'For example: {"symbol": "A"}'),
    ],
)
def test_otherwise_what_is_wanted_is_named_with_an_example_by_the_schema(
    arguments: dict[str, Any], words: str
) -> None:
    assert words in hint_of(arguments)


def test_a_name_that_is_nearly_right_is_named_where_names_are_not_mended() -> None:
    assert hint_of({"symbl": "A"}, is_mending=False) == (
        'Write "symbol" in place of "symbl". The arguments: {"symbol": "A"}'
    )


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([*SCHEMA["properties"], "other"]),  # type: ignore[misc]
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    )
)
def test_arguments_that_are_written_out_are_accepted(arguments: dict[str, Any]) -> None:
    try:
        ArgumentChecker("quote", SCHEMA).check(arguments)
    except BadArguments as error:
        _, is_whole, right = error.hint.partition("The arguments: ")
        if is_whole:
            assert ArgumentChecker("quote", SCHEMA).check(json.loads(right)).repairs == ()


def test_a_hint_stays_short_however_long_the_value_and_the_list_of_choices_are() -> None:
    choices = {"properties": {"a": {"enum": [f"choice {n}" for n in range(500)]}}}
    assert len(hint_of({"a": "x" * 100_000}, choices)) < 900
    assert len(hint_of({"symbol": ["x" * 100_000]})) < 900
