"""Many servers, one namespace: plain names where they are unambiguous, and patterns that pick tools."""

from collections import Counter
from collections.abc import Sequence

import mcp_types as wire
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.mcp.pool import _tool_of, is_offered, namespaced
from turnwise.mcp.results import Sanitiser
from turnwise.types import Tool


def tool(server: str, name: str) -> Tool:
    return Tool(name, "", {"type": "object"}, server, name)


def listing(servers: dict[str, Sequence[str]]) -> dict[str, list[Tool]]:
    return {server: [tool(server, name) for name in names] for server, names in servers.items()}


def names(servers: dict[str, Sequence[str]]) -> dict[str, list[str]]:
    return {server: [tool.name for tool in tools] for server, tools in namespaced(listing(servers)).items()}


def test_a_name_only_one_server_has_stays_plain_and_a_clash_names_both_servers() -> None:
    assert names({"a": ["read", "search"], "b": ["write", "search"], "c": ["run"]}) == {
        "a": ["read", "a__search"],
        "b": ["write", "b__search"],
        "c": ["run"],
    }


def test_the_order_of_servers_and_tools_is_kept() -> None:
    assert list(names({"z": ["q", "b"], "a": ["c", "a"]}).items()) == [("z", ["q", "b"]), ("a", ["c", "a"])]


def test_the_name_the_server_knows_and_everything_else_are_kept() -> None:
    found = namespaced(listing({"a": ["x"], "b": ["x"]}))["b"][0]
    assert (found.name, found.server, found.server_tool) == ("b__x", "b", "x")


def test_a_servers_dots_and_dashes_fit_what_chat_templates_allow_in_a_name() -> None:
    assert names({"my.server-1": ["x"], "b": ["x"]})["my.server-1"] == ["my_server-1__x"]


@pytest.mark.parametrize(
    "servers",
    [
        {"a": ["b__x", "x"], "b": ["x"]},
        {"a.b": ["x"], "a_b": ["x"]},
        {"a": ["x", "x"]},
    ],
)
def test_two_tools_that_would_share_a_name_are_an_error_that_says_which(
    servers: dict[str, list[str]],
) -> None:
    with pytest.raises(ValueError, match=r"two tools end up as '(b__x|a_b__x|a__x)'"):
        namespaced(listing(servers))


SERVERS = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a_b", "a__b"]),
    st.lists(st.sampled_from(["x", "y", "b__x", "a__x", "x__y"]), unique=True, max_size=4),
)


@settings(deadline=None, max_examples=200)
@given(SERVERS)
def test_names_are_unique_and_lead_back_to_their_tool_or_it_is_an_error(
    servers: dict[str, list[str]],
) -> None:
    try:
        found = namespaced(listing(servers))
    except ValueError:
        return
    flat = [tool for tools in found.values() for tool in tools]
    assert max(Counter(tool.name for tool in flat).values(), default=0) <= 1
    assert {server: [tool.server_tool for tool in tools] for server, tools in found.items()} == servers


@settings(deadline=None, max_examples=100)
@given(SERVERS)
def test_naming_twice_changes_nothing(servers: dict[str, list[str]]) -> None:
    try:
        once = namespaced(listing(servers))
    except ValueError:
        return
    assert namespaced(once) == once


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
def test_patterns_see_the_plain_and_the_qualified_name_and_deny_wins(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], is_allowed: bool
) -> None:
    assert is_offered(tool("fmp", "get_quote"), allow, deny) is is_allowed


def test_a_tool_is_changing_and_unrepeatable_unless_its_server_says_otherwise() -> None:
    plain = _tool_of("s", wire.Tool(name="t", input_schema={"type": "object", "x-odd": [1]}), Sanitiser())
    assert (plain.is_read_only, plain.is_idempotent, plain.is_repeatable) == (False, False, False)
    assert plain.description == ""
    assert plain.input_schema == {"type": "object", "x-odd": [1]}, "kept as the server gave it"
    hints = wire.ToolAnnotations(read_only_hint=True)
    assert _tool_of("s", wire.Tool(name="t", input_schema={}, annotations=hints), Sanitiser()).is_repeatable
    hints = wire.ToolAnnotations(idempotent_hint=True)
    idempotent = _tool_of("s", wire.Tool(name="t", input_schema={}, annotations=hints), Sanitiser())
    assert (idempotent.is_read_only, idempotent.is_repeatable) == (False, True)
