"""What a model may get wrong in its arguments, and what a server may get wrong in its schema."""

import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.argument_names import SYNONYMS
from turnwise.mcp.arguments import ArgumentChecker, BadArguments

SEEN_IN_MODELS = {
    "python_code": ["code"],
    "script": ["code"],
    "ticker_symbol": ["ticker", "symbol"],
    "q": ["query"],
    "text": ["message"],
    "channel_name": ["channel"],
}
"""Names that models use in place of a parameter's own."""
QUOTE = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "period": {"enum": ["annual", "quarterly"]},
        "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
    },
    "required": ["symbol"],
    "additionalProperties": False,
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def message(schema: Any, arguments: dict[str, Any]) -> str:
    with pytest.raises(BadArguments) as caught:
        ArgumentChecker("quote", schema).check(arguments)
    return str(caught.value)


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    inner = outer
    for _ in range(depth - 1):
        inner.append([])
        inner = inner[0]
    return outer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["'symbol' is a required property"]),
        ({"symbol": 5}, ["symbol: 5 is not of type 'string'"]),
        ({"symbol": "A", "limit": 0}, ["limit: 0 is less than the minimum of 1"]),
        ({"symbol": "A", "limit": "3"}, ["limit: '3' is not of type 'integer'"]),
        ({"symbol": "A", "period": "weekly"}, ["period: 'weekly' is not one of", "quarterly"]),
        ({"symbol": "A", "filter": {"tags": ["x", 7]}}, ["filter.tags.1: 7 is not of type 'string'"]),
        (
            {"symbol": "A", "ticket": 1},
            ["unknown argument 'ticket'; the arguments are symbol, limit"],
        ),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_what_was_expected(
    arguments: dict[str, Any], words: list[str]
) -> None:
    said = message(QUOTE, arguments)
    assert said.startswith("bad arguments for quote: ")
    for word in words:
        assert word in said


def test_right_arguments_pass_unchanged_and_unrepaired() -> None:
    arguments = {"symbol": "ACME", "limit": 2, "filter": {"tags": ["a"]}}
    checked = ArgumentChecker("quote", QUOTE).check(arguments)
    assert checked.arguments == arguments
    assert checked.repairs == ()


def test_a_huge_wrong_value_does_not_become_a_huge_message() -> None:
    assert len(message(QUOTE, {"symbol": ["x" * 1_000_000]})) < 400


PAIRS = [(given, used) for group in SYNONYMS for given in sorted(group) for used in sorted(group - {given})]


@pytest.mark.parametrize(("alias", "name"), PAIRS)
def test_every_synonym_is_mended_to_the_name_the_schema_knows_and_the_repair_is_recorded(
    alias: str, name: str
) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}, "other": {}}}
    checked = ArgumentChecker("t", schema).check({alias: "v"})
    assert checked.arguments == {name: "v"}
    assert checked.repairs == (f"{alias}->{name}",)


def test_no_name_has_two_meanings() -> None:
    names = [name for group in SYNONYMS for name in group]
    assert len(names) == len(set(names))


def test_every_name_that_models_were_seen_to_use_is_repaired() -> None:
    assert {(alias, name) for alias, names in SEEN_IN_MODELS.items() for name in names} <= set(PAIRS)


def test_a_name_that_two_parameters_could_mean_is_left_alone() -> None:
    schema = {"properties": {"ticker": {"type": "string"}, "symbol": {"type": "string"}}}
    checked = ArgumentChecker("t", schema).check({"stock": "ACME"})
    assert (checked.arguments, checked.repairs) == ({"stock": "ACME"}, ())


def test_the_one_unknown_name_is_taken_for_the_one_missing_parameter_it_fits() -> None:
    checked = ArgumentChecker("quote", QUOTE).check({"limit": 2, "company": "ACME"})
    assert checked.arguments == {"limit": 2, "symbol": "ACME"}
    assert checked.repairs == ("company->symbol",)


def test_a_name_is_not_guessed_for_a_tool_that_may_write_and_a_synonym_is_still_mended() -> None:
    checker = ArgumentChecker("quote", QUOTE, may_guess=False)
    with pytest.raises(BadArguments, match="unknown argument 'company'; missing required 'symbol'"):
        checker.check({"company": "ACME"})
    assert checker.check({"ticker": "ACME"}).repairs == ("ticker->symbol",)


def test_two_repairs_of_one_call_are_both_recorded() -> None:
    checked = ArgumentChecker("quote", QUOTE).check({"company": "ACME", "count": 3})
    assert checked.arguments == {"symbol": "ACME", "limit": 3}
    assert set(checked.repairs) == {"count->limit", "company->symbol"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"company": 5}, "unknown argument 'company'; missing required 'symbol'"),
        ({"a": "x", "b": "y"}, "unknown argument 'a'; unknown argument 'b'; missing required 'symbol'"),
        ({"symbl": 5}, "unknown argument 'symbl'; did you mean 'symbol'? missing required 'symbol'"),
        ({"priod": "x"}, "unknown argument 'priod'; did you mean 'period'? missing required 'symbol'"),
        ({"com->pany": "x"}, "unknown argument 'com->pany'; missing required 'symbol'"),
    ],
)
def test_what_is_not_mended_names_the_unknown_and_the_missing_argument(
    arguments: dict[str, Any], said: str
) -> None:
    assert message(QUOTE, arguments) == f"bad arguments for quote: {said}"


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x": {}}},
        {"allOf": [{"properties": {"ticker": {}}}]},
    ],
)
def test_a_schema_that_takes_other_names_is_never_mended(more: dict[str, Any]) -> None:
    schema = {"properties": {"symbol": {"type": "string"}}, **more}
    checked = ArgumentChecker("t", schema).check({"ticker": "ACME"})
    assert (checked.arguments, checked.repairs) == ({"ticker": "ACME"}, ())
    required = {**schema, "required": ["symbol"]}
    assert message(required, {"ticker": "A"}).endswith("'symbol' is a required property")


def test_an_ignored_argument_never_becomes_a_refused_one() -> None:
    schema = {
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
    checked = ArgumentChecker("t", schema).check({"query": "x", "count": "many"})
    assert checked.arguments == {"query": "x", "count": "many"}


def test_a_parameter_behind_a_reference_is_checked_before_it_is_mended_to() -> None:
    schema = {
        "properties": {"symbol": {"$ref": "#/$defs/symbol"}},
        "required": ["symbol"],
        "$defs": {"symbol": {"type": "string", "maxLength": 4}},
    }
    assert ArgumentChecker("t", schema).check({"ticker": "ACME"}).arguments == {"symbol": "ACME"}
    assert "did you mean 'symbol'?" in message(schema, {"ticker": "ACMES"})


def test_nothing_is_mended_where_that_is_off_and_the_error_is_the_schemas_own() -> None:
    schema = {"properties": QUOTE["properties"], "required": ["symbol"]}
    checker = ArgumentChecker("quote", schema, is_mending=False)
    assert checker.check({"symbol": "A", "count": 3}).arguments == {"symbol": "A", "count": 3}
    with pytest.raises(BadArguments, match=r"^bad arguments for quote: 'symbol' is a required property$"):
        checker.check({"ticker": "ACME"})


def test_an_argument_the_schema_knows_is_never_renamed() -> None:
    schema = {"properties": {"text": {}, "message": {}, "q": {}, "query": {}}}
    checked = ArgumentChecker("t", schema).check({"text": "a", "q": "b"})
    assert checked.arguments == {"text": "a", "q": "b"}
    assert checked.repairs == ()


@pytest.mark.parametrize("order", [("python_code", "code"), ("code", "python_code")])
def test_an_alias_never_overwrites_a_target_that_was_given_too(order: tuple[str, str]) -> None:
    schema = {"properties": {"code": {"type": "string"}}}
    given = {name: name for name in order}
    checked = ArgumentChecker("t", schema).check(given)
    assert checked.arguments == given
    assert checked.repairs == ()


def test_two_aliases_of_one_name_do_not_overwrite_each_other() -> None:
    schema = {"properties": {"code": {"type": "string"}}}
    checked = ArgumentChecker("t", schema).check({"python_code": "first", "script": "second"})
    assert checked.arguments == {"code": "first", "script": "second"}
    assert checked.repairs == ("python_code->code",)


def test_an_unknown_name_without_alias_is_left_for_the_schema_to_judge() -> None:
    assert ArgumentChecker("t", {"properties": {"code": {}}}).check({"cod": 1}).arguments == {"cod": 1}


def test_a_value_that_does_not_fit_is_not_mended() -> None:
    schema = {"properties": {"code": {"type": "string"}}, "required": ["code"]}
    assert "unknown argument 'python_code'; did you mean 'code'?" in message(schema, {"python_code": 5})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": None},
        {"type": "object", "properties": ["symbol"]},
        {"type": "object", "required": "symbol"},
        {"type": "objekt"},
        {"$schema": 5},
        {"$schema": ["x"]},
        {"properties": {"symbol": {"multipleOf": 0}}},
    ],
)
def test_an_invalid_schema_is_warned_of_and_lets_the_server_judge(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        checked = ArgumentChecker("quote", schema).check({"symbol": "A"})
    assert checked.arguments == {"symbol": "A"}
    assert "quote: its schema cannot be checked" in caplog.text


def test_a_schema_nested_past_pythons_recursion_limit_lets_the_server_judge() -> None:
    schema: dict[str, Any] = {}
    inner = schema
    for _ in range(3_000):
        inner["properties"] = {"a": {}}
        inner = inner["properties"]["a"]
    assert ArgumentChecker("t", schema).check({"b": 1}).arguments == {"b": 1}


def test_a_remote_ref_is_never_fetched() -> None:
    hits: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        for schema in (
            {"properties": {"a": {"$ref": url}}},
            {"$schema": url, "properties": {"a": {"$ref": url}}},
            {"$id": url, "properties": {"a": {"$ref": "other.json"}}},
            {"properties": {"a": {"$dynamicRef": url}}},
        ):
            assert ArgumentChecker("t", schema).check({"a": 1}).arguments == {"a": 1}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert hits == []


def test_a_file_ref_is_never_read() -> None:
    schema = {"properties": {"a": {"$ref": "file:///etc/passwd"}}}
    assert ArgumentChecker("t", schema).check({"a": 1}).arguments == {"a": 1}


def test_a_recursive_schema_checks_recursive_arguments() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }
    schema = {"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    ArgumentChecker("t", schema).check({"root": {"children": [{"children": []}]}})
    assert "root.children.0.children.0: 5 is not of type 'object'" in message(
        schema, {"root": {"children": [{"children": [5]}]}}
    )


def test_a_schema_that_refers_only_to_itself_lets_the_server_judge() -> None:
    assert ArgumentChecker("t", {"$ref": "#"}).check({"a": 1}).arguments == {"a": 1}


@pytest.mark.parametrize("depth", [150, 5_000, 100_000])
def test_arguments_nested_past_what_can_be_sent_are_the_models_fault_not_a_crash(depth: int) -> None:
    assert "nested deeper than" in message({"properties": {"a": {}}}, {"a": nested(depth)})


def test_arguments_of_reasonable_depth_pass() -> None:
    ArgumentChecker("t", {"properties": {"a": {}}}).check({"a": nested(90)})


def test_half_a_surrogate_pair_is_the_models_fault_wherever_it_stands() -> None:
    for arguments in ({"a": "\ud800"}, {"\udfff": 1}, {"a": [{"b": ["x\udc00"]}]}):
        assert "surrogate" in message({}, arguments)
    ArgumentChecker("t", {}).check({"a": "\U0001f600"})


def test_a_number_too_large_for_the_validator_does_not_crash() -> None:
    schema = {"properties": {"a": {"multipleOf": 0.1}}}
    assert ArgumentChecker("t", schema).check({"a": 10**400}).arguments == {"a": 10**400}


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(), ANY_JSON, max_size=4), st.dictionaries(st.text(), ANY_JSON, max_size=4))
def test_no_arguments_against_no_schema_raise_anything_but_bad_arguments(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    for tried in (schema, {"properties": schema}, {"properties": {key: {"enum": [1]} for key in arguments}}):
        try:
            checked = ArgumentChecker("t", tried).check(arguments)
        except BadArguments:
            continue
        assert set(map(repr, checked.arguments.values())) == set(map(repr, arguments.values()))
