"""One namespace for the tools of many servers, and the patterns that select tools."""

from collections.abc import Sequence

import mcp_types as wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.calls.results import Sanitiser
from turnwise.mcp.pool import _tool_of, is_offered, namespaced
from turnwise.types import Tool


def tool(server: str, name: str) -> Tool:
    return Tool(name, "", {"type": "object"}, server, name)


def listing(servers: dict[str, Sequence[str]]) -> dict[str, list[Tool]]:
    return {server: [tool(server, name) for name in names] for server, names in servers.items()}


def names(servers: dict[str, Sequence[str]]) -> dict[str, list[str]]:
    return {server: [tool.name for tool in tools] for server, tools in namespaced(listing(servers)).items()}


def test_a_name_is_qualified_only_if_two_servers_have_it() -> None:
    found = names({"my.server-1": ["read", "search"], "b": ["write", "search"], "c": ["run"]})
    assert list(found.items()) == [
        ("my.server-1", ["read", "my_server-1__search"]),
        ("b", ["write", "b__search"]),
        ("c", ["run"]),
    ]


@pytest.mark.parametrize(
    "servers",
    [{"a": ["b__x", "x"], "b": ["x"]}, {"a.b": ["x"], "a_b": ["x"]}, {"a": ["x", "x"]}],
)
def test_two_tools_that_would_share_a_name_are_an_error(servers: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"two tools end up as '(b__x|a_b__x|a__x)'"):
        namespaced(listing(servers))


SERVERS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a_b", "a__b"]),
    st.lists(st.sampled_from(["x", "y", "b__x", "a__x", "x__y"]), unique=True, max_size=4),
)


@settings(deadline=None, max_examples=150)
@given(SERVERS)
def test_names_are_unique_stable_and_lead_back_to_their_tool(servers: dict[str, list[str]]) -> None:
    try:
        found = namespaced(listing(servers))
    except ValueError:
        return
    flat = [tool.name for tools in found.values() for tool in tools]
    assert len(flat) == len(set(flat))
    assert {server: [tool.server_tool for tool in tools] for server, tools in found.items()} == servers
    assert namespaced(found) == found


# --- allow and deny ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allow", "deny", "is_allowed"),
    [
        (None, (), True),
        (("get_*",), (), True),
        (("GET_*",), (), False),
        ((), (), False),
        (("other",), (), False),
        (("get_quote",), ("get_quote",), False),
        (None, ("*quote",), False),
        (None, ("quote",), True),
        (("fmp__get_quote",), (), True),
        (("fmp__*",), (), True),
        (("slack__*",), (), False),
        (None, ("fmp__*",), False),
        (("get_[pq]uote",), (), True),
    ],
)
def test_patterns_match_the_plain_or_the_qualified_name_and_deny_wins(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], is_allowed: bool
) -> None:
    assert is_offered(tool("fmp", "get_quote"), allow, deny) is is_allowed


@pytest.mark.parametrize(
    ("hints", "is_read_only", "is_repeatable"),
    [({}, False, False), ({"readOnlyHint": True}, True, True), ({"idempotentHint": True}, False, True)],
)
def test_a_tool_may_write_and_may_not_be_repeated_unless_its_server_says_otherwise(
    hints: dict[str, bool], is_read_only: bool, is_repeatable: bool
) -> None:
    schema = {"type": "object", "x-odd": [1]}
    listed = wire.Tool.model_validate({"name": "t", "inputSchema": schema, "annotations": hints or None})
    found = _tool_of("s", listed, Sanitiser())
    assert (found.is_read_only, found.is_repeatable) == (is_read_only, is_repeatable)
    assert (found.description, found.input_schema) == ("", schema)
