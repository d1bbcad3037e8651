from dataclasses import replace
from typing import Any

import pytest

from tests.explore_first.sample_answers import NUMBER, TEXT, tool
from turnwise.explore.first.document import document_of
from turnwise.explore.first.material import material_of
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.rivals import Rivals
from turnwise.explore.first.shapes.look_up import look_up
from turnwise.explore.first.values import Source, Value
from turnwise.explore.first.worth import is_echo, worth_asking_about
from turnwise.types import Tool

READ = tool("read_file", path=TEXT)
LONG = "a text that is long enough to say something"


def seen(
    number: int, called: Tool, answer: str = LONG, led_from: int | None = None, **arguments: object
) -> Observation:
    values = {name: Value(value, name, Source.ANSWER, led_from) for name, value in arguments.items()}
    return Observation(number, called, values, document_of(answer))


def kept(*observations: Observation) -> list[dict[str, object]]:
    return [found.plain_arguments for found in worth_asking_about(observations).observations]


def test_paths_are_said_below_a_folder_if_the_server_takes_both_spellings() -> None:
    both = [seen(1, READ, path="/data/notes/a.txt"), seen(2, READ, path="./a.txt")]
    assert kept(*both, seen(3, READ, "another text, of another file", path="/data/notes/b/c.txt")) == [
        {"path": "a.txt"},
        {"path": "b/c.txt"},
    ]


def test_paths_stay_whole_if_no_short_one_was_seen_to_work() -> None:
    assert kept(seen(1, READ, path="/data/a.txt")) == [{"path": "/data/a.txt"}]


def test_a_call_that_an_answer_led_to_keeps_its_path_for_chains() -> None:
    worth = worth_asking_about([seen(1, READ, path="/data/a.txt", led_from=0), seen(2, READ, path="./a.txt")])
    assert [found.plain_arguments["path"] for found in worth.observations] == ["/data/a.txt", "a.txt"]
    assert worth.wordy == {1}


def test_an_argument_that_changes_nothing_is_left_out() -> None:
    log = tool("get_log", repository=TEXT, since={"default": ""})
    assert kept(seen(1, log, repository="a", since="2 weeks ago"), seen(2, log, repository="a")) == [
        {"repository": "a"}
    ]


@pytest.mark.parametrize(
    ("called", "arguments"),
    [
        (tool("search", query=TEXT), {"query": "Error: file not found"}),
        (tool("search", query=TEXT), {"query": "- [[Home]]"}),
        (tool("search", query=TEXT), {"query": "7"}),
        (tool("convert_batch", requests={"type": "array"}), {"requests": [{}, {}]}),
        (tool("read_lines", end_line=NUMBER), {"end_line": 1794881109601}),
        (tool("read_lines", start_line=NUMBER), {"start_line": 2.5}),
        (tool("read_lines", start_line=NUMBER, end_line=NUMBER), {"start_line": 9, "end_line": 2}),
        (tool("convert", value=NUMBER), {"value": -11.11111111111111}),
    ],
)
def test_calls_that_nobody_would_make_are_not_asked_about(called: Tool, arguments: dict[str, Any]) -> None:
    assert kept(seen(1, called, **arguments)) == []


def test_ids_may_be_large() -> None:
    assert kept(seen(1, tool("get_user", user_id=NUMBER), user_id=1794881109601)) != []


@pytest.mark.parametrize("name", ["get-env", "read_secrets", "health_check", "get_server_info"])
def test_environments_and_servers_are_not_asked_about(name: str) -> None:
    worth = worth_asking_about([seen(1, tool(name))])
    assert worth.observations == ()
    assert name in worth.why_not


def test_a_deprecated_tool_is_asked_about_only_if_no_other_answers_the_same() -> None:
    old = replace(READ, name="read", description="Read a file. DEPRECATED: use read_file.")
    worth = worth_asking_about([seen(1, old, path="a.txt"), seen(2, READ, path="a.txt")])
    assert [found.tool.name for found in worth.observations] == ["read_file"]
    assert worth.why_not == {"read": "it is deprecated, and read_file answers the same"}
    assert len(worth_asking_about([seen(1, old, path="a.txt")]).observations) == 1


@pytest.mark.parametrize("value", ["/data/a.md", "a.md", "a", "file:///data/a.md"])
def test_names_in_a_path_are_echoes(value: str) -> None:
    assert is_echo(value, seen(1, READ, path="/data/a.md"))


def test_what_a_path_does_not_say_is_no_echo() -> None:
    assert not is_echo("Anna", seen(1, READ, path="/data/a.md"))
    assert is_echo("2013-12-23", seen(1, READ, path="2013-12-23 23:15:00"))


def test_a_question_names_its_tool_if_another_tool_states_the_answer_too() -> None:
    part = seen(1, tool("get_part", part=TEXT), '{"weight": 1250, "maker": "Norden"}', part="gear")
    listed = seen(2, tool("list_parts"), '[{"part": "gear", "weight": 1250}, {"part": "nut", "weight": 3}]')
    material = material_of([part, listed], [], 0)
    asked = {draft.key.rpartition("/")[2]: draft for draft in look_up(material) if "get_part" in draft.tools}
    assert all("`get_part`" in question for question in asked["weight"].questions)
    assert not all("`get_part`" in question for question in asked["maker"].questions)


def test_a_call_about_something_else_is_no_rival() -> None:
    gear = seen(1, tool("get_part", part=TEXT), '{"weight": 1250}', part="gear")
    other = seen(2, tool("get_maker", maker=TEXT), '{"weight": 1250}', maker="Norden")
    [query] = [query for query in material_of([gear, other], [], 0).asked(gear) if query.value == 1250]
    assert not Rivals([gear, other]).state(gear, query)


def test_rows_are_called_by_what_the_tool_lists() -> None:
    customers = seen(1, tool("list_customers"), '[{"name": "Ann", "age": 31}, {"name": "Bob", "age": 44}]')
    nouns = [query.noun for query in material_of([customers], [], 0).asked(customers)]
    assert "the number of customers" in nouns
    assert "the age of the customer “Bob”" in nouns
    columns = seen(1, tool("describe_table", table=TEXT), '[{"name": "id"}, {"name": "age"}]', table="t")
    assert "the number of columns" in [query.noun for query in material_of([columns], [], 0).asked(columns)]


def test_what_no_argument_changes_is_asked_without_arguments() -> None:
    stats = tool("get_stats", recent={"default": 5})
    answers = [seen(number, stats, '{"notes": 11}', recent=number) for number in range(1, 4)]
    everything = seen(9, stats, '{"notes": 11}')
    material = material_of([*answers, everything], [], 0)
    assert [query.value for query in material.asked(everything)] == [11]
    assert not any(material.asked(answer) for answer in answers)
