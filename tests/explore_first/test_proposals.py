"""Argument sets are proposed in the order of their promise, never twice, and alike for the same seed."""

from random import Random
from typing import Any

from turnwise.explore.first.document import document_of
from turnwise.explore.first.proposals import drawn_inputs, proposals
from turnwise.explore.first.value_sources import values_of
from turnwise.explore.first.values import ValueStore, value_key
from turnwise.types import Tool

TEXT = {"type": "string"}


def tool(*required: str, **properties: Any) -> Tool:
    return Tool("t", "", {"properties": properties, "required": list(required)}, "s", "t")


def proposed(of: Tool, answer: str = "{}", limit: int = 20, seed: int = 0) -> list[dict[str, Any]]:
    store = ValueStore(values_of(0, document_of(answer)))
    found = proposals(of, store, Random(seed), limit=limit)
    return [{name: value.value for name, value in arguments.items()} for arguments in found]


def test_a_tool_without_parameters_is_called_once() -> None:
    assert proposed(tool()) == [{}]


def test_required_parameters_come_alone_before_optional_ones() -> None:
    search = tool("city", city=TEXT, order={"enum": ["asc", "desc"]}, verbose={"type": "boolean"})
    found = proposed(search, '[{"city": "Ulm"}, {"city": "Bonn"}]', limit=6)
    assert found[:2] == [{"city": "Ulm"}, {"city": "Bonn"}]
    assert {"city": "Ulm", "order": "asc"} in found
    assert {"city": "Ulm", "order": "desc"} in found
    assert not any("verbose" in arguments for arguments in found)


def test_no_set_is_proposed_twice() -> None:
    found = proposed(tool("a", "b", a={"type": "integer"}, b={"type": "integer"}, c={"enum": [1]}), limit=60)
    assert len(found) == 60
    assert len({value_key(arguments) for arguments in found}) == 60


def test_values_of_one_row_are_tried_together() -> None:
    rows = '[{"owner": "ann", "repo": "a"}, {"owner": "bob", "repo": "b"}, {"owner": "cem", "repo": "c"}]'
    found = proposed(tool("owner", "repo", owner=TEXT, repo=TEXT), rows, limit=3)
    assert found == [{"owner": one, "repo": one[0]} for one in ("ann", "bob", "cem")]


def test_two_parameters_get_different_values_first() -> None:
    zones = tool("source_timezone", "target_timezone", source_timezone=TEXT, target_timezone=TEXT)
    for arguments in proposed(zones, limit=5):
        assert arguments["source_timezone"] != arguments["target_timezone"]


def test_the_parameter_with_fitting_values_is_varied_first() -> None:
    search = tool("note", "city", note=TEXT, city=TEXT)
    found = proposed(search, '[{"city": "Ulm"}, {"city": "Bonn"}, {"city": "Kiel"}]', limit=2)
    assert len({arguments["note"] for arguments in found}) == 1
    assert len({arguments["city"] for arguments in found}) == 2


def test_the_same_seed_proposes_the_same_sets() -> None:
    add = tool("a", "b", a={"type": "number"}, b={"type": "number"})
    assert proposed(add, seed=3) == proposed(add, seed=3)
    drawn = [drawn_inputs(add, Random(seed), 10) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_drawn_inputs_stay_within_bounds_and_differ() -> None:
    convert = tool(
        "value",
        "unit",
        "zone",
        value={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        unit={"enum": ["km", "mi"]},
        zone={"type": "string", "description": "IANA timezone"},
    )
    found = drawn_inputs(convert, Random(1), 20)
    assert len({value_key({name: one.value for name, one in arguments.items()}) for arguments in found}) == 20
    for arguments in found:
        assert 0 <= arguments["value"].value < 1
        assert arguments["unit"].value in ("km", "mi")
        assert "/" in arguments["zone"].value or arguments["zone"].value == "UTC"


def test_formulas_and_code_are_drawn_for_parameters_that_take_them() -> None:
    compute = tool(
        "expression", "code", expression=TEXT, code={"type": "string", "description": "Python to run"}
    )
    [arguments] = drawn_inputs(compute, Random(1), 1)
    formula, code = arguments["expression"].value, arguments["code"].value
    assert set(formula) <= set("0123456789 ()+*")
    assert code.startswith("print(")


def test_fewer_inputs_are_drawn_where_fewer_exist() -> None:
    assert len(drawn_inputs(tool("unit", unit={"enum": ["km", "mi"]}), Random(1), 10)) == 2


def test_a_thousand_optional_parameters_do_not_stop_the_proposals() -> None:
    wide = tool("city", city=TEXT, **{f"option{number}": {"enum": [1, 2, 3]} for number in range(1_000)})
    assert len(proposed(wide, limit=30)) == 30
