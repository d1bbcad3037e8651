"""What a plan must leave as it is: which answers can stand in a task."""

import pytest

from turnwise.explore.first.surroundings import Surroundings
from turnwise.types import Cause, StateProbe, ToolResult

WITNESS = StateProbe("read_note", {"title": "garden"})
SHOWS = StateProbe("read_note", {"title": "errands"}, "letter")


def answered(text: str, cause: Cause = Cause.OK) -> ToolResult:
    return ToolResult("probe.0", text, cause, 0.0)


def settled(probe: StateProbe, first: ToolResult, second: ToolResult) -> list[StateProbe]:
    return [found for found, _ in Surroundings().settled([probe], [first], [second])]


def test_an_answer_on_which_two_sessions_agree_is_expected_as_a_whole() -> None:
    [found] = settled(WITNESS, answered("12 tomatoes"), answered("12 tomatoes"))
    assert found.equals == "12 tomatoes"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a letter, id 4", "a letter, id 9"),
        ("a letter, 10:42", "a letter, 10:42"),
        ("letter " * 400, "letter " * 400),
    ],
)
def test_of_an_answer_that_may_differ_or_is_long_only_the_change_is_expected(first: str, second: str) -> None:
    assert settled(SHOWS, answered(first), answered(second)) == [SHOWS]
    assert settled(WITNESS, answered(first), answered(second)) == []


def test_an_error_is_no_witness() -> None:
    failed = answered("error: no note", Cause.TOOL_ERROR)
    assert settled(WITNESS, failed, failed) == []
