"""The reasons why a tool is in no task are those that were seen."""

from collections import Counter

from tests.explore_first.sample_answers import record, tool
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.reasons import ToolHistory, why_in_no_task
from turnwise.explore.first.survey import ToolRecord

LISTING = tool("list_customers")


def answered(num_calls: int = 3) -> ToolRecord:
    return ToolRecord(
        LISTING, [Observation(0, LISTING, {}, record(size=3))], num_answers=num_calls, num_calls=num_calls
    )


def test_answers_that_nobody_repeated_do_not_differ() -> None:
    late = ToolHistory(answered(), why_stopped="time ran out")
    assert why_in_no_task(late) == "its answers were not repeated: time ran out"
    differing = ToolHistory(answered(), num_differing=1, why_stopped="time ran out")
    assert why_in_no_task(differing) == "its answers differ from session to session"


def test_a_tool_that_was_not_tried_has_no_missing_value() -> None:
    late = ToolHistory(ToolRecord(LISTING), why_stopped="time ran out")
    assert why_in_no_task(late) == "it was not called: time ran out"
    assert why_in_no_task(ToolHistory(ToolRecord(LISTING))) == "no value for one of its parameters was found"


def test_rejections_and_drafts_that_were_not_looked_at_are_counted() -> None:
    rejections = Counter({"the answer can be guessed": 4, "an argument is the answer": 1})
    seen = ToolHistory(
        answered(),
        num_stable=1,
        num_drafts=8,
        rejections=rejections,
        num_not_verified=3,
        why_not_verified="time ran out",
    )
    assert why_in_no_task(seen) == (
        "no program of 5 passed: the answer can be guessed (4 times); 3 programs not verified: time ran out"
    )


def test_answers_of_today_are_named() -> None:
    seen = ToolHistory(answered(), num_stable=2, num_of_today=2)
    assert why_in_no_task(seen) == "its answers depend on the day"
