"""Composed rewards: parts, weights, the user's own functions, and that style never beats success."""

import asyncio
import inspect
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.rewards import own_rewards
from tests.rewards.episodes import HISTORY, POST, QUOTE, did, episode, garbled, said
from turnwise.rewards import REWARDS, SHAPING, Rewards, RewardTerm, is_success
from turnwise.types import Answer, Cause, Reward, ServerLoss, Stop, Trajectory, Truth, Turn
from turnwise.types.protocols import RewardDown

OWN = "tests.rewards.own_rewards"
TRUTH = Truth(
    answer=Answer("yes"),
    writes=(),
    required_tools=(QUOTE,),
    forbidden_tools=(POST,),
    milestones=(QUOTE, HISTORY),
)
RIGHT = episode(TRUTH, did(QUOTE), said("yes"))
WRONG = episode(TRUTH, did(QUOTE), said("no"))
PLAIN = sorted(set(REWARDS) - {"judge"})


async def score(trajectory: Trajectory, *parts: RewardTerm) -> Reward:
    async with Rewards(parts) if parts else Rewards() as rewards:
        return await rewards.score(trajectory)


async def test_by_default_a_success_is_one_and_anything_else_zero() -> None:
    assert await score(RIGHT) == Reward(1.0, {"outcome": 1.0})
    assert await score(WRONG) == Reward(0.0, {"outcome": 0.0})


async def test_every_part_is_in_the_result_before_it_is_weighted() -> None:
    weights = {"outcome": 1.0, "format": 0.2, "milestones": 0.1, "error_rate": -0.1}
    slip = episode(TRUTH, garbled(), did(QUOTE, cause=Cause.TOOL_ERROR), did(QUOTE), said("yes"))
    reward = await score(slip, *(RewardTerm(name, weight) for name, weight in weights.items()))
    assert reward.parts == {"outcome": 1.0, "format": 0.75, "milestones": 0.5, "error_rate": 0.5}
    assert reward.total == pytest.approx(1 + 0.2 * 0.75 + 0.1 * 0.5 - 0.1 * 0.5)


@pytest.mark.parametrize("name", PLAIN)
async def test_every_reward_is_an_async_function_from_zero_to_one(name: str) -> None:
    assert inspect.iscoroutinefunction(REWARDS[name])
    for stop in (stop for stop in Stop if not stop.is_infrastructure):
        for turns in ((), (garbled(),), (did(QUOTE), did(POST), said("yes")), (said("yes"),)):
            assert 0 <= await REWARDS[name](episode(TRUTH, *turns, stop=stop)) <= 1


@pytest.mark.parametrize("name", sorted(set(PLAIN) - {"probes", "error_rate", "efficiency"}))
async def test_every_goal_and_term_pays_the_right_episode_and_not_the_wrong_one(name: str) -> None:
    wrong = episode(
        Truth(answer=TRUTH.answer, writes=(), probes=(), required_tools=(HISTORY,), forbidden_tools=(POST,)),
        garbled(),
        did(POST),
        said("no"),
    )
    right = episode(TRUTH, did(QUOTE), did(HISTORY), said("yes"))
    assert (await REWARDS[name](right)) == 1
    assert (await REWARDS[name](wrong)) < 1


turns = st.lists(
    st.sampled_from(
        [did(QUOTE), did(HISTORY), did(POST), did(QUOTE, cause=Cause.TOOL_ERROR), garbled(), said("maybe")]
    ),
    max_size=6,
)
ends = st.sampled_from([said("yes"), said("no"), said("yes no"), garbled()])
stops = st.sampled_from([Stop.ANSWERED, Stop.ANSWERED, Stop.ANSWERED, Stop.MAX_TURNS, Stop.TRUNCATED])
weights = st.integers(-1_000, 1_000).map(lambda weight: weight / 1_000)
shapings = st.dictionaries(st.sampled_from([*SHAPING, "answer", f"{OWN}:shout"]), weights, max_size=6)
builtin_shapings = st.dictionaries(st.sampled_from([*SHAPING, "answer"]), weights, max_size=6)


@given(shapings, st.lists(st.tuples(turns, ends, stops), min_size=2, max_size=6), st.floats(1e-3, 10))
@settings(max_examples=80, deadline=None)
def test_any_success_outscores_any_failure(
    shaping: dict[str, float], played: list[tuple[list[Turn], Turn, Stop]], scale: float
) -> None:
    total = sum(map(abs, shaping.values()))
    # The closest call that is allowed: everything else together weighs almost as much as the outcome.
    parts = [
        RewardTerm("outcome", scale),
        *(RewardTerm(name, w * scale * 0.999 / (total or 1)) for name, w in shaping.items()),
    ]
    episodes = [episode(TRUTH, *before, last, stop=stop) for before, last, stop in played]
    episodes += [RIGHT, WRONG]

    async def run() -> list[tuple[bool, float]]:
        rewards = Rewards(parts)
        return [(is_success(episode), (await rewards.score(episode)).total) for episode in episodes]

    scored = asyncio.run(run())
    assert min(total for good, total in scored if good) > max(total for good, total in scored if not good)


@given(builtin_shapings, st.floats(0.01, 2))
@settings(max_examples=50, deadline=None)
def test_weights_that_could_make_failing_pay_more_are_refused(
    shaping: dict[str, float], least: float
) -> None:
    total = sum(map(abs, shaping.values()))
    assume(total >= least)
    with pytest.raises(ValueError, match="outcome"):
        Rewards(
            [RewardTerm("outcome", least), *(RewardTerm(name, weight) for name, weight in shaping.items())]
        )


def test_your_own_function_may_weigh_more_than_the_outcome() -> None:
    parts = Rewards([RewardTerm(f"{OWN}:shout"), RewardTerm("outcome", 0.5)]).parts
    assert [part.weight for part in parts] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ([], "at least one"),
        ([RewardTerm("outcom")], "no reward 'outcom'"),
        ([RewardTerm("outcome"), RewardTerm("outcome")], "twice"),
        ([RewardTerm("outcome", float("nan"))], "finite"),
        ([RewardTerm("outcome", 0.0)], "more than 0"),
        ([RewardTerm("outcome", -1.0)], "more than 0"),
        ([RewardTerm("format")], "only shape"),
        ([RewardTerm("answer", 0.1), RewardTerm("format", 0.2)], "answer"),
        ([RewardTerm("outcome"), RewardTerm("answer", 1.0)], "outcome"),
        ([RewardTerm("outcome"), RewardTerm("format", 0.3), RewardTerm("efficiency", 0.7)], "outcome"),
        ([RewardTerm("outcome", 1.0, {"strict": True})], "strict"),
        ([RewardTerm("judge", 1.0)], "model"),
        ([RewardTerm("judge", 1.0, {"model": "m", "base_url": "ftp://x"})], "base_url"),
        ([RewardTerm(f"{OWN}:absent")], "absent"),
        ([RewardTerm("tests.rewards.absent:x")], "cannot be imported"),
        ([RewardTerm(f"{OWN}:NOT_A_FUNCTION")], "not a function"),
        ([RewardTerm(f"{OWN}:")], "module:function"),
        ([RewardTerm(":x")], "module:function"),
        ([RewardTerm(f"{OWN}:shout", 1.0, {"marks": "?"})], "marks"),
    ],
)
def test_a_composition_that_cannot_work_is_refused_when_it_is_made(
    parts: Sequence[RewardTerm], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        Rewards(parts)


async def test_the_users_own_functions_count_plain_and_async_with_options() -> None:
    loud = episode(TRUTH, did(QUOTE), said("yes?"))
    reward = await score(
        loud, RewardTerm(f"{OWN}:shout", 1.0, {"mark": "?"}), RewardTerm(f"{OWN}:later", 2.0)
    )
    assert reward == Reward(3.0, {f"{OWN}:shout": 1.0, f"{OWN}:later": 1.0})


async def test_a_class_of_the_users_own_is_made_once_and_closed() -> None:
    own_rewards.CLOSED.clear()
    async with Rewards([RewardTerm(f"{OWN}:Counting", 1.0, {"step": 0.25})]) as rewards:
        assert [(await rewards.score(RIGHT)).total for _ in range(3)] == [0.25, 0.5, 0.75]
    assert own_rewards.CLOSED == [0.75]


@pytest.mark.parametrize(
    ("name", "word"),
    [("broken", "KeyError: 'price'"), ("too_much", "1.5"), ("not_a_number", "good"), ("nan", "nan")],
)
async def test_a_mistake_in_the_users_own_code_is_an_error_and_not_a_zero(name: str, word: str) -> None:
    with pytest.raises(RuntimeError, match=f"{OWN}:{name}(?=.*t1).*{word}"):
        await score(RIGHT, RewardTerm(f"{OWN}:{name}"))


async def test_the_users_own_code_may_report_that_its_service_is_down() -> None:
    with pytest.raises(RewardDown, match="my service is down"):
        await score(RIGHT, RewardTerm(f"{OWN}:out_of_reach"))


async def test_an_episode_lost_to_infrastructure_is_never_scored() -> None:
    for stop in (stop for stop in Stop if stop.is_infrastructure):
        with pytest.raises(RewardDown):
            await score(episode(TRUTH, did(QUOTE), stop=stop))


async def test_an_episode_whose_state_was_lost_is_never_scored() -> None:
    lost = ServerLoss("chat", "died", is_state_lost=True)
    with pytest.raises(RewardDown):
        await score(episode(TRUTH, did(QUOTE), said("yes"), losses=(lost,)))
    kept = ServerLoss("chat", "died")
    assert (await score(episode(TRUTH, did(QUOTE), said("yes"), losses=(kept,)))).total == 1
