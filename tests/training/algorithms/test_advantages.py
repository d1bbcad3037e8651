"""Advantages against hand-worked numbers, and properties that hold for all rewards."""

import itertools
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnwise.training.algorithms.advantages import ADVANTAGES, has_signal, mean, returns_to_go, rloo, turn

GROUP_ONLY = ["mean", "grpo", "rloo", "maxrl"]
"""Estimators in which the advantages of a group do not depend on the rewards of other groups."""

ROOT = 0.5**0.5
KNOWN: dict[str, tuple[list[float], list[list[float]]]] = {
    "mean": ([0.75, -0.25, -0.25, -0.25], [[0.5, -0.5], [0] * 3, [-2 / 3, 1 / 3, 1 / 3]]),
    "grpo": ([1.5, -0.5, -0.5, -0.5], [[ROOT, -ROOT], [0] * 3, [-2 / 3**0.5, 3**-0.5, 3**-0.5]]),
    "rloo": ([1, -1 / 3, -1 / 3, -1 / 3], [[1, -1], [0] * 3, [-1, 0.5, 0.5]]),
    "maxrl": ([3, -1, -1, -1], [[1, -1], [0] * 3, [-1, 0.5, 0.5]]),
    # the batch has mean 6/8 and variance (6·(1/4)² + 2·(3/4)²) / 7 = 1.5/7
    "reinforce++": (
        [1.5, -0.5, -0.5, -0.5],
        [[a * (7 / 1.5) ** 0.5 for a in row] for row in ([0.25, -0.75], [0.25] * 3, [-0.75, 0.25, 0.25])],
    ),
    # the variance of the differences is (½ + 0 + 6/9) / 7 = 1/6; their mean is 0
    "batch_std": (
        [1.5, -0.5, -0.5, -0.5],
        [[a * 6**0.5 for a in row] for row in ([0.5, -0.5], [0] * 3, [-2 / 3, 1 / 3, 1 / 3])],
    ),
}
"""The answers for [[1, 0, 0, 0]] and for the ragged batch [[1, 0], [1, 1, 1], [0, 1, 1]]."""

rewards = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.05]), min_size=1, max_size=6), min_size=1, max_size=4
)
every_estimator = pytest.mark.parametrize("name", ADVANTAGES)


@every_estimator
def test_known_answers(name: str) -> None:
    one_of_four, ragged = KNOWN[name]
    assert ADVANTAGES[name]([[1, 0, 0, 0]]) == [pytest.approx(one_of_four, abs=1e-12)]
    found = ADVANTAGES[name]([[1, 0], [1, 1, 1], [0, 1, 1]])
    assert found == [pytest.approx(row, abs=1e-12) for row in ragged]


@every_estimator
def test_equal_rewards_and_groups_of_one_give_exact_zeros(name: str) -> None:
    for group in ([1.0], [0.3] * 7, [0.0] * 4, [0.1 + 0.2, 0.3]):
        assert ADVANTAGES[name]([group]) == [[0.0] * len(group)]
    assert ADVANTAGES[name]([]) == []


@every_estimator
def test_a_nan_reward_never_becomes_zero(name: str) -> None:
    for place in range(3):
        group = [1.0, 1.0, 1.0]
        group[place] = math.nan
        assert any(math.isnan(advantage) for advantage in ADVANTAGES[name]([group])[0])


@every_estimator
@given(groups=rewards)
@example(groups=[[0.1, 0.2, 0.3, 0.6, 1e-3], [1.0, 0.1, 0.1]])
@settings(max_examples=25, deadline=None)
def test_advantages_rank_members_sum_to_zero_and_do_not_depend_on_order(
    name: str, groups: list[list[float]]
) -> None:
    found = ADVANTAGES[name](groups)
    for group, advantages in zip(groups, found, strict=True):
        assert len(group) == len(advantages)
        assert all(map(math.isfinite, advantages))
        order = sorted(range(len(group)), key=lambda i: group[i])
        assert all(advantages[a] <= advantages[b] + 1e-12 for a, b in itertools.pairwise(order))
        if has_signal(group):
            assert advantages[order[0]] < advantages[order[-1]]
        if name != "reinforce++":
            assert sum(advantages) == pytest.approx(0, abs=1e-9)
    backwards = ADVANTAGES[name]([group[::-1] for group in groups[::-1]])
    assert [row[::-1] for row in backwards[::-1]] == found, "bit for bit"


@every_estimator
@pytest.mark.parametrize("group", [[1, 0, 0.5], [0.7] * 3, [0.2]], ids=str)
def test_only_estimators_with_a_batch_baseline_depend_on_other_groups(name: str, group: list[float]) -> None:
    alone = ADVANTAGES[name]([group])[0]
    among_others = ADVANTAGES[name]([[0.9, 0.1], group, [0, 1, 0]])[1]
    if name in GROUP_ONLY:
        assert among_others == alone
    elif len(group) > 1 and (name == "reinforce++" or has_signal(group)):
        assert among_others != pytest.approx(alone)


def test_maxrl_rejects_negative_rewards() -> None:
    with pytest.raises(ValueError, match=r"group 1 has -0\.1"):
        ADVANTAGES["maxrl"]([[1, 0], [1, -0.1]])


# --- per turn ----------------------------------------------------------------------------------------------


def test_returns_to_go_contain_no_earlier_rewards() -> None:
    assert returns_to_go([1, 2, 4]) == [7, 6, 4]
    assert returns_to_go([1, 2, 4], gamma=0.5) == [3, 4, 4]
    assert returns_to_go([]) == []


@pytest.mark.parametrize(
    ("group", "gamma", "expected"),
    [
        # returns [1, 1, 1], [0, 0], [.5]; the baseline is the mean over members that reached the turn
        ([[0, 0, 1], [0, 0], [0.5]], 1.0, [[0.5, 0.5, 0.0], [-0.5, -0.5], [0.0]]),
        # returns [1, 0] and [1, 1]: a reward is not credited to later turns
        ([[1, 0], [0, 1]], 1.0, [[0.0, -0.5], [0.0, 0.5]]),
        ([[0, 1], [0, 0]], 0.5, [[0.25, 0.5], [-0.25, -0.5]]),
    ],
    ids=["ragged", "intermediate reward", "discounted"],
)
def test_known_answers_per_turn(group: list[list[float]], gamma: float, expected: list[list[float]]) -> None:
    assert turn([group], gamma=gamma) == [expected]


def test_with_one_turn_per_member_the_advantage_per_turn_is_the_mean_centred_one() -> None:
    groups = [[1.0, 0.0, 0.0], [0.2, 0.8]]
    found = turn([[[reward] for reward in group] for group in groups])
    assert found == [[[advantage] for advantage in members] for members in mean(groups)]


def test_the_advantage_per_turn_is_leave_one_out_scaled_by_the_share_of_other_members() -> None:
    # docs/design/algorithms.md states the bias: (n − 1)/n of the unbiased advantage for n members at the turn
    reached = [0.0, 1.0, 1.0]
    group = [[0.0, reward] for reward in reached] + [[1.0]]
    at_turn_1 = [member[1] for member in turn([group])[0][:3]]
    assert at_turn_1 == pytest.approx([2 / 3 * advantage for advantage in rloo([reached])[0]])
