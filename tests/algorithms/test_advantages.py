"""Advantages against hand-worked numbers, and properties that hold for all rewards."""

import itertools
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnwise.algorithms.advantages import ADVANTAGES, has_signal, mean, returns_to_go, rloo, turn

GROUP_ONLY = ["mean", "grpo", "rloo", "maxrl"]
"""Estimators in which the advantages of a group do not depend on the rewards of other groups."""

rewards = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.05]), min_size=1, max_size=6), min_size=1, max_size=4
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [0.75, -0.25, -0.25, -0.25]),
        ("grpo", [1.5, -0.5, -0.5, -0.5]),
        ("rloo", [1, -1 / 3, -1 / 3, -1 / 3]),
        ("maxrl", [3, -1, -1, -1]),
        ("reinforce++", [1.5, -0.5, -0.5, -0.5]),
        ("batch_std", [1.5, -0.5, -0.5, -0.5]),
    ],
)
def test_one_success_of_four_gives_the_known_answer(name: str, expected: list[float]) -> None:
    assert ADVANTAGES[name]([[1, 0, 0, 0]]) == [pytest.approx(expected, abs=1e-12)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [[0.5, -0.5], [0, 0, 0], [-2 / 3, 1 / 3, 1 / 3]]),
        ("grpo", [[0.5**0.5, -(0.5**0.5)], [0, 0, 0], [-2 / 3 * 3**0.5, 3**-0.5, 3**-0.5]]),
        ("rloo", [[1, -1], [0, 0, 0], [-1, 0.5, 0.5]]),
        ("maxrl", [[1, -1], [0, 0, 0], [-1, 0.5, 0.5]]),
        # batch: mean 6/8, squares 6·(1/4)² + 2·(3/4)² = 1.5 over 7
        (
            "reinforce++",
            [[a / (1.5 / 7) ** 0.5 for a in row] for row in [[0.25, -0.75], [0.25] * 3, [-0.75, 0.25, 0.25]]],
        ),
        # squares of the differences: ½ + 0 + 6/9 over 7; their mean is 0
        (
            "batch_std",
            [[a * 6**0.5 for a in row] for row in [[0.5, -0.5], [0, 0, 0], [-2 / 3, 1 / 3, 1 / 3]]],
        ),
    ],
)
def test_every_group_of_a_ragged_batch_has_its_own_baseline(name: str, expected: list[list[float]]) -> None:
    found = ADVANTAGES[name]([[1, 0], [1, 1, 1], [0, 1, 1]])
    assert [pytest.approx(row, abs=1e-12) for row in expected] == found


@pytest.mark.parametrize("name", ADVANTAGES)
@pytest.mark.parametrize("groups", [[[1.0]], [[0.3] * 7], [[0.0] * 4], [[0.1 + 0.2, 0.3]], []])
def test_equal_rewards_and_groups_of_one_give_exact_zeros(name: str, groups: list[list[float]]) -> None:
    assert ADVANTAGES[name](groups) == [[0.0] * len(group) for group in groups]


@pytest.mark.parametrize("name", GROUP_ONLY)
def test_a_flat_group_among_others_gets_exact_zeros(name: str) -> None:
    assert ADVANTAGES[name]([[1, 0], [0.7, 0.7, 0.7], [0.2]])[1:] == [[0.0] * 3, [0.0]]


@pytest.mark.parametrize("name", ADVANTAGES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_nan_reward_never_becomes_zero(name: str, place: int) -> None:
    group = [1.0, 1.0, 1.0]
    group[place] = math.nan
    assert any(math.isnan(advantage) for advantage in ADVANTAGES[name]([group])[0])


@pytest.mark.parametrize("name", ADVANTAGES)
@given(groups=rewards)
@settings(max_examples=30, deadline=None)
def test_a_better_member_never_has_the_lower_advantage(name: str, groups: list[list[float]]) -> None:
    for group, advantages in zip(groups, ADVANTAGES[name](groups), strict=True):
        assert len(group) == len(advantages)
        assert all(map(math.isfinite, advantages))
        order = sorted(range(len(group)), key=lambda i: group[i])
        assert all(advantages[a] <= advantages[b] + 1e-12 for a, b in itertools.pairwise(order))
        if has_signal(group):
            assert advantages[order[0]] < advantages[order[-1]]


@pytest.mark.parametrize("name", [*GROUP_ONLY, "batch_std"])
@given(groups=rewards)
@settings(max_examples=30, deadline=None)
def test_advantages_of_a_group_sum_to_zero(name: str, groups: list[list[float]]) -> None:
    for advantages in ADVANTAGES[name](groups):
        assert sum(advantages) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ADVANTAGES)
@given(groups=rewards)
@example(groups=[[0.1, 0.2, 0.3, 0.6, 1e-3], [1.0, 0.1, 0.1]])
@settings(max_examples=30, deadline=None)
def test_the_order_of_groups_and_members_changes_no_bit(name: str, groups: list[list[float]]) -> None:
    reversed_groups = [group[::-1] for group in groups[::-1]]
    restored = [row[::-1] for row in ADVANTAGES[name](reversed_groups)[::-1]]
    assert restored == ADVANTAGES[name](groups)


@pytest.mark.parametrize("name", GROUP_ONLY)
def test_advantages_do_not_depend_on_other_groups(name: str) -> None:
    alone = ADVANTAGES[name]([[1, 0, 0.5]])[0]
    assert ADVANTAGES[name]([[0.9, 0.1], [1, 0, 0.5], [0, 1]])[1] == alone


def test_advantages_with_a_batch_baseline_depend_on_other_groups() -> None:
    for name in ("reinforce++", "batch_std"):
        alone = ADVANTAGES[name]([[1, 0, 0.5]])[0]
        assert ADVANTAGES[name]([[1, 0, 0.5], [0, 0.1]])[0] != pytest.approx(alone)


def test_maxrl_scales_a_success_by_its_rarity_and_rejects_negative_rewards() -> None:
    assert ADVANTAGES["maxrl"]([[1] + [0] * 9])[0][0] == pytest.approx(9)
    assert ADVANTAGES["maxrl"]([[0] + [1] * 9])[0][1] == pytest.approx(1 / 9)
    with pytest.raises(ValueError, match=r"group 1 has -0\.1"):
        ADVANTAGES["maxrl"]([[1, 0], [1, -0.1]])


# --- per turn ----------------------------------------------------------------------------------------------


def test_returns_to_go_contain_no_earlier_rewards() -> None:
    assert returns_to_go([1, 2, 4]) == [7, 6, 4]
    assert returns_to_go([1, 2, 4], gamma=0.5) == [3, 4, 4]
    assert returns_to_go([]) == []


def test_the_baseline_of_a_turn_is_the_mean_over_members_that_reached_it() -> None:
    # returns-to-go: [1, 1, 1], [0, 0], [.5]; means over the members present: .5, .5, 1
    found = turn([[[0, 0, 1], [0, 0], [0.5]]])
    assert found == [[[0.5, 0.5, 0.0], [-0.5, -0.5], [0.0]]]


def test_an_intermediate_reward_is_not_credited_to_later_turns() -> None:
    # member 0 is rewarded at turn 0, member 1 at turn 1: returns [1, 0] and [1, 1]
    assert turn([[[1, 0], [0, 1]]]) == [[[0.0, -0.5], [0.0, 0.5]]]


def test_turn_equals_mean_when_every_member_has_one_turn() -> None:
    groups = [[1.0, 0.0, 0.0], [0.2, 0.8]]
    assert turn([[[reward] for reward in group] for group in groups]) == [
        [[advantage] for advantage in members] for members in mean(groups)
    ]


def test_turn_is_leave_one_out_scaled_by_the_share_of_other_members_at_that_turn() -> None:
    # the bias stated in docs/algorithms.md: (n − 1)/n of the unbiased advantage for n members at the turn
    reached = [0.0, 1.0, 1.0]
    group = [[0.0, reward] for reward in reached] + [[1.0]]
    at_turn_1 = [member[1] for member in turn([group])[0][:3]]
    assert at_turn_1 == pytest.approx([2 / 3 * advantage for advantage in rloo([reached])[0]])


def test_the_discount_per_turn_applies_to_the_returns() -> None:
    assert turn([[[0, 1], [0, 0]]], gamma=0.5) == [[[0.25, 0.5], [-0.25, -0.5]]]
