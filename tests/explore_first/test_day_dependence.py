import datetime

import pytest

from tests.explore_first.sample_answers import TEXT, tool
from turnwise.explore.first.day_dependence import Today
from turnwise.explore.first.document import document_of
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.values import Source, Value

TODAY = Today(datetime.datetime(2026, 3, 9, 12, tzinfo=datetime.UTC))


def depends(answer: str, given: str = "x") -> bool:
    arguments = {"time": Value(given, "time", Source.USER)}
    return TODAY.is_in(Observation(0, tool("tell", time=TEXT), arguments, document_of(answer)))


@pytest.mark.parametrize(
    "answer", ["The day is 2026-03-09.", '{"day": "Monday"}', "a month ago", "in 5 days", "2 hours from now."]
)
def test_answers_that_count_from_today_depend_on_the_day(answer: str) -> None:
    assert depends(answer)


@pytest.mark.parametrize("answer", ["2024-01-05", "Long ago a king lived here.", '{"age": 12}'])
def test_other_answers_do_not(answer: str) -> None:
    assert not depends(answer)


def test_a_day_that_the_call_states_is_no_clock() -> None:
    assert not depends("2026-03-09 is a working day", given="2026-03-09")
