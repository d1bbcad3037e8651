"""No policy gains by making its tools fail where it would fail."""

from typing import Any

import pytest

from tests.benchmarks.loading import loaded

voiding = loaded("voiding")
NUM_EPISODES = 6
QUICK = ("an error that spells ENOSPC", "a crash", "slow calls up to rollout.seconds", "a provider's failure")


@pytest.fixture(scope="module")
async def honest() -> Any:
    return await voiding.play("none", NUM_EPISODES)


TRICKS = [pytest.param(trick, marks=() if trick in QUICK else pytest.mark.slow) for trick in voiding.TRICKS]


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_policy_that_provokes_faults_succeeds_as_often_as_an_honest_one(
    trick: str, honest: Any
) -> None:
    """The coins of all policies fall alike, unless an episode is drawn again."""
    assert 0 < honest.num_successes < NUM_EPISODES
    assert (await voiding.play(trick, NUM_EPISODES)).num_successes == honest.num_successes
