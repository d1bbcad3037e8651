"""Schemas that no careful server would send are checked within a budget, or not at all."""

import logging
from typing import Any

import pytest

from turnwise.mcp.calls.schemas import Schema

DOUBLING: dict[str, Any] = {
    "$defs": {f"n{number}": {"allOf": [{"$ref": f"#/$defs/n{number + 1}"}] * 2} for number in range(40)}
    | {"n40": {"type": "object"}},
    "$ref": "#/$defs/n0",
}
HOSTILE: dict[str, dict[str, Any]] = {
    "a pattern that Python does not know": {"properties": {"x": {"pattern": r"^\p{L}+$"}}},
    "a pattern of exponential time": {"properties": {"x": {"pattern": "^(a+)+$"}}},
    "names by a pattern of exponential time": {"patternProperties": {"^(a+)+$": False}},
    "property names by a pattern": {"propertyNames": {"pattern": "^(a+)+$"}},
    "a limit that is not a number": {"properties": {"x": {"maxLength": "5"}}},
    "a negation of itself": {"not": {"$ref": "#"}},
    "a reference to itself": {"$ref": "#"},
    "references that double at every level": DOUBLING,
    "a reference elsewhere": {"$ref": "https://example.com/schema.json"},
    "a dialect that is not a string": {"$schema": 5},
    "an unknown dialect": {"$schema": "https://example.com/own", "properties": {"x": {"type": "strin"}}},
    "a list of properties": {"properties": []},
    "endless recursion": {"properties": {"x": {"anyOf": [{"$ref": "#/properties/x"}, {"$ref": "#"}]}}},
    "twenty thousand properties": {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_blocks_a_call(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Schema("tool", HOSTILE[name]).first_error({"x": "a" * 100 + "!"}) is None


def test_keywords_left_to_the_server_do_not_affect_the_others() -> None:
    schema = {
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "properties": {"n": {"type": "integer"}},
    }
    assert Schema("tool", schema).first_error({"x-own": 1, "n": 2}) is None
    assert Schema("tool", schema).first_error({"n": "two"}) is not None


def test_an_ordinary_schema_is_checked() -> None:
    schema = {
        "$defs": {"side": {"enum": ["buy", "sell"]}},
        "properties": {"side": {"$ref": "#/$defs/side"}, "orders": {"items": {"$ref": "#/$defs/side"}}},
        "required": ["side"],
    }
    checked = Schema("tool", schema)
    assert checked.first_error({"side": "buy", "orders": ["sell"] * 1000}) is None
    error = checked.first_error({"side": "hold"})
    assert error is not None
    assert "'hold' is not one of" in error.message
    assert checked.fits("side", "buy")
    assert not checked.fits("side", "hold")


def test_a_check_over_budget_does_not_affect_the_next(caplog: pytest.LogCaptureFixture) -> None:
    recursive = {"properties": {"inner": {"$ref": "#"}, "n": {"type": "integer"}}}
    checked = Schema("tool", recursive)
    deep: dict[str, Any] = {}
    for _ in range(90):
        deep = {"inner": deep}
    assert checked.first_error(deep) is None
    assert "too long" in caplog.text
    assert checked.first_error({"inner": {"n": "x"}}) is not None
