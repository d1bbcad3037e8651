"""A family whose episodes are lost more often than others' is told from chance."""

import random
from collections.abc import Mapping

import pytest

from turnwise.rollout.measure.losses import CHANCE, MAX_CHANCE, SHARE, loss_figures, most_lost


def test_a_family_that_is_lost_more_than_others_stands_out() -> None:
    attempts = {"lookups": (200, 2), "changes": (100, 12), "news": (100, 1)}
    figures = loss_figures(attempts)
    assert figures[SHARE] == pytest.approx(15 / 400)
    assert figures[CHANCE] < MAX_CHANCE
    assert figures["lost/changes"] == 0.12
    assert most_lost(attempts) == "family changes: 12 of 100 were lost"


@pytest.mark.parametrize(
    "attempts",
    [
        {"lookups": (200, 20), "changes": (100, 11)},  # a bad machine loses all alike
        {"lookups": (400, 0), "changes": (20, 1)},
        {"only one": (100, 50)},
        {"nothing": (10, 0), "lost": (10, 0)},
    ],
)
def test_losses_that_chance_explains_do_not(attempts: Mapping[str, tuple[int, int]]) -> None:
    assert loss_figures(attempts)[CHANCE] > MAX_CHANCE


def test_nothing_that_was_played_has_no_figures() -> None:
    assert loss_figures({}) == {}
    assert most_lost({"a": (3, 0)}) == ""


def test_families_with_the_same_chance_of_loss_raise_an_alarm_as_rarely_as_is_said() -> None:
    rng = random.Random(0)
    families = {"a": 60, "b": 40, "c": 20}
    num_alarms = 0
    for _ in range(2_000):
        lost = {name: sum(rng.random() < 0.05 for _ in range(size)) for name, size in families.items()}
        attempts = {name: (size, lost[name]) for name, size in families.items()}
        num_alarms += loss_figures(attempts)[CHANCE] <= MAX_CHANCE
    assert num_alarms <= 5
