"""Answers that name the current date are not asked about."""

import datetime

from turnwise.explore.verdicts.today import names_today


def test_an_answer_that_names_today_depends_on_the_day() -> None:
    now = datetime.datetime.now(datetime.UTC)
    assert names_today(f'{{"datetime": "{now:%Y-%m-%d}T10:00:00"}}', "convert 10:00")
    assert names_today(f"it is {now:%B} {now.day}, {now.year}", "")
    assert not names_today(f"{now:%Y-%m-%d} is a good day", f"what is on {now:%Y-%m-%d}?")
    assert not names_today("due 2025-03-01", "")
    assert names_today(f'{{"modified": {int(now.timestamp() * 1000)}}}', "")
    assert not names_today('{"modified": 1262304000}', "")


def test_a_time_that_is_counted_from_now_depends_on_the_day() -> None:
    assert names_today("2 years ago", "2024-07-28")
    assert names_today("in 3 days", "")
    assert not names_today("The visit was planned in 3 days of work.", "")
