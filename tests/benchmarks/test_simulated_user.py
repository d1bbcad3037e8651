"""A few conversations with users behind a failing endpoint are the same as without faults."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.benchmarks.loading import loaded
from turnwise.types import Reward, Stop

pytestmark = pytest.mark.slow  # half a minute

simulated_user = loaded("simulated_user")


@pytest.fixture(scope="module")
async def compared() -> Any:
    """Sixteen conversations without faults, and eight of them with many faults."""
    return await simulated_user.compare(8, seed=1, rate=0.6, timeout_share=0.0)


async def test_conversations_behind_a_failing_endpoint_are_those_without_faults(compared: Any) -> None:
    plain, done, problems = compared
    assert problems == []
    assert (len(plain.groups), len(done.groups), len(done.episodes)) == (4, 2, 8)
    assert done.injected.total() >= 5, "it tries nothing"
    assert any(trajectory.stop is Stop.ENDED_BY_USER for trajectory, _ in done.episodes.values())


async def test_the_audit_reports_what_must_not_happen(compared: Any) -> None:
    plain, done, _ = compared
    first, second = done.groups
    other = replace(first, rewards=(Reward(math.pi, {}), *first.rewards[1:]))
    short = replace(first, trajectories=first.trajectories[1:], rewards=first.rewards[1:])
    changed = {
        "1 groups, 2 were asked for": replace(done, groups=(first,)),
        "a group was played twice": replace(done, groups=(first, first)),
        f"{first.task.id}: 3 episodes": replace(done, groups=(short, second)),
        f"{first.task.id}/0: scored {math.pi}": replace(done, groups=(other, second)),
        "were counted": replace(done, progress=replace(done.progress, failures=Counter({Stop.TOOL_DOWN: 1}))),
    }
    for words, wrong in changed.items():
        assert any(words in problem for problem in simulated_user.problems_of(wrong, plain, 2)), words
