"""What a model may get wrong in its arguments, and what a server may get wrong in its schema."""

import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.calls.argument_names import SYNONYMS
from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments

Json = dict[str, Any]
TEXT = {"type": "string"}
QUOTE = {
    "type": "object",
    "properties": {
        "symbol": TEXT,
        "limit": {"type": "integer", "minimum": 1},
        "period": {"enum": ["annual", "quarterly"]},
        "filter": {"type": "object", "properties": {"tags": {"type": "array", "items": TEXT}}},
    },
    "required": ["symbol"],
    "additionalProperties": False,
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def message(schema: Any, arguments: Json, **options: bool) -> str:
    """The error that these arguments cause, without its first words."""
    with pytest.raises(BadArguments, match=r"^bad arguments for quote: ") as caught:
        ArgumentChecker("quote", schema, **options).check(arguments)
    return str(caught.value).partition(": ")[2]


def checked(schema: Any, arguments: Json, **options: bool) -> tuple[Json, tuple[str, ...]]:
    """The arguments after repair, and the repairs."""
    found = ArgumentChecker("quote", schema, **options).check(arguments)
    return dict(found.arguments), found.repairs


def is_unchanged(schema: Any, arguments: Json, **options: bool) -> bool:
    return checked(schema, arguments, **options) == (arguments, ())


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    inner = outer
    for _ in range(depth - 1):
        inner.append([])
        inner = inner[0]
    return outer


# --- right and wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'symbol' is a required property"),
        ({"symbol": 5}, "symbol: 5 is not of type 'string'"),
        ({"symbol": "A", "limit": 0}, "limit: 0 is less than the minimum of 1"),
        ({"symbol": "A", "limit": "3"}, "limit: '3' is not of type 'integer'"),
        ({"symbol": "A", "period": "weekly"}, "period: 'weekly' is not one of ['annual', 'quarterly']"),
        ({"symbol": "A", "filter": {"tags": ["x", 7]}}, "filter.tags.1: 7 is not of type 'string'"),
        ({"symbol": "A", "ticket": 1}, "unknown argument 'ticket'; the arguments are symbol, limit"),
        ({"company": 5}, "unknown argument 'company'; missing required 'symbol'"),
        ({"a": "x", "b": "y"}, "unknown argument 'a'; unknown argument 'b'; missing required 'symbol'"),
        ({"symbl": 5}, "unknown argument 'symbl'; did you mean 'symbol'? missing required 'symbol'"),
        ({"priod": "x"}, "unknown argument 'priod'; did you mean 'period'? missing required 'symbol'"),
        ({"com->pany": "x"}, "unknown argument 'com->pany'; missing required 'symbol'"),
    ],
)
def test_an_error_names_the_argument_its_value_and_what_is_expected(arguments: Json, words: str) -> None:
    assert message(QUOTE, arguments).startswith(words)


def test_right_arguments_pass_unchanged() -> None:
    assert is_unchanged(QUOTE, {"symbol": "ACME", "limit": 2, "filter": {"tags": ["a"]}})


def test_a_huge_wrong_value_does_not_become_a_huge_message() -> None:
    assert len(message(QUOTE, {"symbol": ["x" * 1_000_000]})) < 400


@pytest.mark.parametrize("depth", [150, 5_000, 100_000])
def test_arguments_nested_too_deeply_to_be_sent_are_refused(depth: int) -> None:
    assert "nested deeper than" in message({"properties": {"a": {}}}, {"a": nested(depth)})
    assert is_unchanged({"properties": {"a": {}}}, {"a": nested(90)})


def test_a_lone_surrogate_is_refused_anywhere_in_the_arguments() -> None:
    for arguments in ({"a": "\ud800"}, {"\udfff": 1}, {"a": [{"b": ["x\udc00"]}]}):
        assert "surrogate" in message({}, arguments)
    assert is_unchanged({}, {"a": "\U0001f600"})


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(), ANY_JSON, max_size=4), st.dictionaries(st.text(), ANY_JSON, max_size=4))
def test_a_check_raises_nothing_but_bad_arguments(schema: Json, arguments: Json) -> None:
    for tried in (schema, {"properties": schema}, {"properties": {key: {"enum": [1]} for key in arguments}}):
        try:
            found, _ = checked(tried, arguments)
        except BadArguments:
            continue
        assert set(map(repr, found.values())) == set(map(repr, arguments.values()))


# --- repairs -----------------------------------------------------------------------------------------------


def test_every_synonym_is_repaired_to_the_name_in_the_schema() -> None:
    pairs = {(given, used) for group in SYNONYMS for given in group for used in group - {given}}
    for given_name, used in pairs:
        schema = {"type": "object", "properties": {used: TEXT, "other": {}}}
        assert checked(schema, {given_name: "v"}) == ({used: "v"}, (f"{given_name}->{used}",))
    seen_in_models = (
        "python_code code script code ticker_symbol ticker ticker_symbol symbol q query text message"
    )
    words = [*seen_in_models.split(), "channel_name", "channel"]
    assert set(zip(words[::2], words[1::2], strict=True)) <= pairs
    names = [name for group in SYNONYMS for name in group]
    assert len(names) == len(set(names)), "a name has two meanings"


@pytest.mark.parametrize(
    ("sent", "used", "repairs"),
    [
        ({"limit": 2, "company": "ACME"}, {"limit": 2, "symbol": "ACME"}, {"company->symbol"}),
        ({"company": "A", "count": 3}, {"symbol": "A", "limit": 3}, {"count->limit", "company->symbol"}),
    ],
)
def test_the_only_unknown_name_becomes_the_only_missing_one(
    sent: Json, used: Json, repairs: set[str]
) -> None:
    found, done = checked(QUOTE, sent)
    assert (found, set(done)) == (used, repairs)


def test_for_a_tool_that_may_write_synonyms_are_repaired_but_no_name_is_guessed() -> None:
    expected = "unknown argument 'company'; missing required 'symbol'"
    assert message(QUOTE, {"company": "ACME"}, may_guess=False) == expected
    assert checked(QUOTE, {"ticker": "ACME"}, may_guess=False)[1] == ("ticker->symbol",)


def test_with_repairs_off_the_error_is_that_of_the_schema() -> None:
    schema = {"properties": QUOTE["properties"], "required": ["symbol"]}
    assert is_unchanged(schema, {"symbol": "A", "count": 3}, is_mending=False)
    assert message(schema, {"ticker": "ACME"}, is_mending=False) == "'symbol' is a required property"


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"ticker": TEXT, "symbol": TEXT}}, {"stock": "ACME"}),  # it could mean either
        ({"properties": {"text": {}, "message": {}, "q": {}, "query": {}}}, {"text": "a", "q": "b"}),
        ({"properties": {"code": TEXT}}, {"python_code": "a", "code": "b"}),  # the target is given too
        ({"properties": {"code": TEXT}}, {"code": "b", "python_code": "a"}),
        ({"properties": {"code": {}}}, {"cod": 1}),  # no synonym, and nothing is required
        # the value does not fit, and an argument that was ignored must not become one that is refused
        ({"properties": {"query": TEXT, "limit": {"type": "integer"}}}, {"query": "x", "count": "many"}),
    ],
)
def test_an_ambiguous_or_unnecessary_repair_is_not_made(schema: Json, arguments: Json) -> None:
    assert is_unchanged(schema, arguments)


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": TEXT},
        {"patternProperties": {"^x": {}}},
        {"allOf": [{"properties": {"ticker": {}}}]},
    ],
)
def test_names_are_never_repaired_for_a_schema_that_allows_others(more: Json) -> None:
    schema = {"properties": {"symbol": TEXT}, **more}
    assert is_unchanged(schema, {"ticker": "ACME"})
    assert message({**schema, "required": ["symbol"]}, {"ticker": "A"}) == "'symbol' is a required property"


def test_of_two_synonyms_only_one_is_renamed() -> None:
    found = checked({"properties": {"code": TEXT}}, {"python_code": "first", "script": "second"})
    assert found == ({"code": "first", "script": "second"}, ("python_code->code",))


def test_a_value_that_does_not_fit_the_parameter_is_not_renamed() -> None:
    words = "unknown argument 'python_code'; did you mean 'code'?"
    assert words in message({"properties": {"code": TEXT}, "required": ["code"]}, {"python_code": 5})
    short = {"symbol": {"type": "string", "maxLength": 4}}
    schema = {"properties": {"symbol": {"$ref": "#/$defs/symbol"}}, "required": ["symbol"], "$defs": short}
    assert checked(schema, {"ticker": "ACME"})[0] == {"symbol": "ACME"}
    assert "did you mean 'symbol'?" in message(schema, {"ticker": "ACMES"})


# --- schemas that cannot be checked ------------------------------------------------------------------------


INVALID = [
    {"properties": None},
    {"required": "symbol"},
    {"type": "objekt"},
    {"properties": {"symbol": {"multipleOf": 0}}},
]


@pytest.mark.parametrize("schema", INVALID)
def test_an_invalid_schema_causes_a_warning(schema: Json, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert is_unchanged(schema, {"symbol": "A"})
    assert "quote: its schema cannot be checked" in caplog.text


def test_schemas_and_numbers_beyond_the_validator_do_not_crash_it() -> None:
    deep: Json = {}
    inner = deep
    for _ in range(3_000):
        inner["properties"] = {"a": {}}
        inner = inner["properties"]["a"]
    assert is_unchanged(deep, {"b": 1})
    assert is_unchanged({"$ref": "#"}, {"a": 1})
    assert is_unchanged({"properties": {"a": {"multipleOf": 0.1}}}, {"a": 10**400})


def test_no_reference_of_a_schema_is_fetched_from_the_network_or_a_file() -> None:
    hits: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        for schema in (
            {"properties": {"a": {"$ref": url}}},
            {"$schema": url, "properties": {"a": {"$ref": url}}},
            {"$id": url, "properties": {"a": {"$ref": "other.json"}}},
            {"properties": {"a": {"$dynamicRef": url}}},
            {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        ):
            assert is_unchanged(schema, {"a": 1})
        server.shutdown()
        thread.join()
    assert hits == []


def test_a_recursive_schema_checks_recursive_arguments() -> None:
    children = {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}
    tree = {"type": "object", "properties": children}
    schema = {"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    assert is_unchanged(schema, {"root": {"children": [{"children": []}]}})
    wrong = {"root": {"children": [{"children": [5]}]}}
    assert message(schema, wrong).startswith("root.children.0.children.0: 5 is not of type 'object'")
