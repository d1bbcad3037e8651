"""Parameters are read from input schemas with the quirks that servers have."""

from typing import Any

import pytest

from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Tool


def tool(properties: dict[str, Any], *, description: str = "", **schema: Any) -> Tool:
    return Tool("t", description, {"type": "object", "properties": properties, **schema}, "s", "t")


def only(schema: dict[str, Any], **root: Any) -> Parameter:
    [parameter] = parameters_of(tool({"x": schema}, **root))
    return parameter


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, Kind.TEXT),
        ({"type": ["null", "integer"]}, Kind.INTEGER),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, Kind.NUMBER),
        ({"oneOf": [{"type": "boolean"}, {"type": "null"}]}, Kind.BOOLEAN),
        ({"allOf": [{"$ref": "#/$defs/Name"}], "description": "d"}, Kind.TEXT),
        ({"$ref": "#/$defs/Name"}, Kind.TEXT),
        ({"$ref": "#/$defs/Loop"}, Kind.ANY),
        ({"$ref": "#/nowhere"}, Kind.ANY),
        ({"properties": {"a": {}}}, Kind.OBJECT),
        ({"items": {}}, Kind.ARRAY),
        ({"enum": ["a", "b"]}, Kind.TEXT),
        ({"default": 3}, Kind.INTEGER),
        ({}, Kind.ANY),
    ],
)
def test_the_type_is_found_wherever_the_schema_states_it(schema: dict[str, Any], kind: Kind) -> None:
    defs = {"Name": {"type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}}
    assert only(schema, **{"$defs": defs}).kind is kind


def test_constants_of_alternatives_are_an_enum() -> None:
    assert only({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}).enum == ("a", "b")
    assert only({"anyOf": [{"enum": [1, 2]}, {"type": "null"}]}).enum == (1, 2)
    assert only({"const": "fixed"}).enum == ("fixed",)


def test_bounds_decide_what_is_accepted() -> None:
    limit = only({"type": "integer", "exclusiveMinimum": 0, "maximum": 50, "multipleOf": 5})
    assert [number for number in (0, 3, 5, 50, 55, True, 5.0) if limit.accepts(number)] == [5, 50]
    code = only({"type": "string", "pattern": "^[A-Z]{3}$"})
    assert code.accepts("EUR")
    assert not code.accepts("euro")


def test_a_pattern_that_may_take_for_ever_is_left_to_the_server() -> None:
    assert only({"type": "string", "pattern": "^(a+)+$"}).accepts("a" * 60 + "!")
    assert only({"type": "string", "pattern": "("}).accepts("a")


def test_objects_and_arrays_have_parameters_of_their_own() -> None:
    place = only({"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]})
    assert [(part.name, part.kind, part.is_required) for part in place.properties] == [
        ("lat", Kind.NUMBER, True)
    ]
    names = only({"type": "array", "items": {"type": "string"}, "minItems": 2})
    assert names.items is not None
    assert names.items.kind is Kind.TEXT
    assert not names.accepts(["one"])


def test_a_docstring_describes_the_parameters_that_the_schema_does_not() -> None:
    text = "Get a quote.\n\nArgs:\n    symbol (str): The ticker, e.g. AAPL\n"
    [symbol] = parameters_of(tool({"symbol": {"type": "string"}}, description=text))
    assert symbol.description == "The ticker, e.g. AAPL"


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": None}, {"properties": {"a": True}}]
)
def test_a_schema_without_properties_is_no_mistake(schema: dict[str, Any]) -> None:
    assert len(parameters_of(Tool("t", "", schema, "s", "t"))) <= 1


def test_required_names_are_marked() -> None:
    found = parameters_of(tool({"a": {}, "b": {}}, required=["b", "missing", 3]))
    assert [(one.name, one.is_required) for one in found] == [("a", False), ("b", True)]
