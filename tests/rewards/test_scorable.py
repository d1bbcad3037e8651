"""Which tasks a reward can score: one rule for `tasks check`, a dry run, doctor and a run."""

import pytest

from tests.rewards.episodes import POST, QUOTE, did, episode, said
from turnwise.rewards import REWARDS, Rewards, RewardTerm, check_scorable, why_unscorable
from turnwise.types import Answer, ExpectedWrite, Message, StateProbe, Task, Truth, Turn
from turnwise.types.protocols import RewardDown

TRUTHS = (
    Truth(),
    Truth(answer=Answer("x")),
    Truth(writes=()),
    Truth(writes=(ExpectedWrite(POST, {}),)),
    Truth(probes=(StateProbe(QUOTE, {}, "x"),)),
    Truth(required_tools=(QUOTE,)),
    Truth(min_tool_calls=1),
    Truth(forbidden_tools=(POST,)),
    Truth(milestones=(QUOTE,)),
    Truth(rubric="Be brief."),
)


def with_truth(truth: Truth) -> Task:
    return Task("t1", (Message("user", "?"),), (), truth)


@pytest.mark.parametrize("name", ["outcome", "answer", "writes", "required_tools", "forbidden_tools"])
@pytest.mark.parametrize("truth", TRUTHS)
async def test_a_task_is_refused_exactly_if_its_reward_cannot_tell_episodes_apart(
    name: str, truth: Truth
) -> None:
    async def score(*turns: Turn) -> float | None:
        try:
            return await REWARDS[name](episode(truth, *turns))
        except (ValueError, RewardDown):  # a truth that asks for nothing, or a probe that was never run
            return None

    played = ((said("y"),), (did(QUOTE), said("x")), (did(POST), said("x")))
    scores = {await score(*turns) for turns in played}
    if why_unscorable(with_truth(truth), [RewardTerm(name)]):
        assert len(scores) == 1
    elif not truth.probes:
        assert None not in scores


@pytest.mark.parametrize(
    ("parts", "truth", "word"),
    [
        ([RewardTerm("outcome")], Truth(rubric="Be brief."), "add answer, writes, probes"),
        ([RewardTerm("outcome")], Truth(milestones=(QUOTE,)), "doing nothing would succeed"),
        (
            [RewardTerm("answer"), RewardTerm("efficiency", 0.1)],
            Truth(rubric="x"),
            "doing nothing would succeed",
        ),
        ([RewardTerm("judge", options={"model": "m"})], Truth(answer=Answer("x")), "truth.rubric"),
        ([RewardTerm("answer")], Truth(required_tools=(QUOTE,)), "the reward needs truth.answer"),
        ([RewardTerm("answer"), RewardTerm("writes")], Truth(), "truth.answer or truth.writes"),
    ],
)
def test_a_task_that_cannot_be_scored_is_refused_with_what_to_add(
    parts: list[RewardTerm], truth: Truth, word: str
) -> None:
    with pytest.raises(ValueError, match="task 't1': ") as caught:
        check_scorable([with_truth(truth)], parts)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "truth"),
    [
        ([RewardTerm("outcome")], Truth(min_tool_calls=1)),
        ([RewardTerm("judge", options={"model": "m"})], Truth(rubric="Be brief.")),
        ([RewardTerm("judge", options={"model": "m", "rubric": "Be brief."})], Truth()),
        ([RewardTerm("tests.run.own_rewards:even_ids")], Truth()),
        ([RewardTerm("answer"), RewardTerm("milestones", 0.1)], Truth(milestones=(QUOTE,))),
        ([RewardTerm("answer"), RewardTerm("format", 0.1)], Truth()),
    ],
)
def test_a_task_that_its_reward_can_score_is_accepted(parts: list[RewardTerm], truth: Truth) -> None:
    check_scorable([with_truth(truth)], parts)


async def test_the_check_and_the_run_have_the_same_message() -> None:
    why = why_unscorable(with_truth(Truth()), [RewardTerm("outcome")])
    with pytest.raises(ValueError, match="task 't1'") as caught:
        await Rewards().score(episode(Truth(), said("x")))
    assert str(why) in str(caught.value)
