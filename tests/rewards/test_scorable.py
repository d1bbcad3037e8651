"""Which tasks a reward can score: the rule that `tasks check`, a dry run, doctor and a run itself apply."""

import asyncio

import pytest

from tests.rewards.episodes import POST, QUOTE, did, episode, said
from turnwise.rewards import REWARDS, Rewards, RewardTerm, check_scorable, why_unscorable
from turnwise.types import Answer, ExpectedWrite, Message, StateProbe, Task, Truth

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


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("name", ["outcome", "answer", "writes", "required_tools", "forbidden_tools"])
def test_what_is_accepted_can_be_scored_and_what_is_refused_cannot_or_tells_nothing(
    name: str, truth: Truth
) -> None:
    def score(*turns: object) -> float | None:
        trajectory = episode(truth, *turns)  # type: ignore[arg-type]
        try:
            return asyncio.run(REWARDS[name](trajectory))
        except Exception:  # noqa: BLE001  # a truth that asks for nothing, or a probe that nobody put
            return None

    tried = {score(*turns) for turns in ((said("y"),), (did(QUOTE), said("x")), (did(POST), said("x")))}
    is_refused = why_unscorable(with_truth(truth), [RewardTerm(name)]) is not None
    if is_refused:
        assert len(tried) == 1
    elif not truth.probes:
        assert None not in tried


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
def test_a_task_that_its_reward_can_tell_apart_is_accepted(parts: list[RewardTerm], truth: Truth) -> None:
    check_scorable([with_truth(truth)], parts)


async def test_the_message_of_a_check_is_that_of_the_run_itself() -> None:
    why = why_unscorable(with_truth(Truth()), [RewardTerm("outcome")])
    with pytest.raises(ValueError, match="task 't1'") as caught:
        await Rewards().score(episode(Truth(), said("x")))
    assert str(why) in str(caught.value)
