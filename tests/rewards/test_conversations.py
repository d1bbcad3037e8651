"""Conversations are scored exchange by exchange, and no cheat across messages earns anything."""

from dataclasses import replace

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, TOOLS, did, said
from turnwise.rewards import Rewards, RewardTerm, why_unscorable
from turnwise.rewards.exchanges import exchanges_of
from turnwise.rewards.outcome import is_success, succeeded, successes_of
from turnwise.types import (
    Answer,
    Cause,
    ExpectedWrite,
    FollowUp,
    Matcher,
    Message,
    ProbeResult,
    Reward,
    StateProbe,
    Stop,
    Task,
    Trajectory,
    Truth,
    Turn,
)

PRICE = Truth(answer=Answer(182.31, Matcher.NUMERIC), writes=(), required_tools=(QUOTE,))
PROBE = StateProbe(HISTORY, {"channel": "general"}, "182.31")
POSTED = Truth(writes=(ExpectedWrite(POST, {"message": "182.31"}),), probes=(PROBE,))
NAME = Truth(answer=Answer("Ada Lovelace"), writes=())
TASK = Task(
    "t",
    "What does AAPL cost?",
    truth=PRICE,
    conversation=(FollowUp("Post it to general.", POSTED), FollowUp("Who is the chief?", NAME)),
)
LOOK = did(QUOTE, symbol="AAPL")
POSTING = did(POST, channel="general", message="182.31")
HONEST = ((LOOK, said("182.31")), (POSTING, said("Posted.")), (said("Ada Lovelace"),))


def episode(*exchanges: tuple[Turn, ...], task: Task = TASK, stop: Stop = Stop.ANSWERED) -> Trajectory:
    """An episode of these exchanges; the probe finds what was posted up to then."""
    turns: list[Turn] = []
    probes: list[ProbeResult] = []
    state = ""
    for message, played in enumerate(exchanges):
        texts = ["", *(follow_up.message for follow_up in task.conversation)]
        for place, turn in enumerate(played):
            turns.append(replace(turn, message=message, user="" if place else texts[message]))
            state += "".join(str(call.arguments) for call in turn.parsed.calls if call.name == POST)
        probes += [ProbeResult(probe, state, False, message) for probe in task.truths[message].probes]
    endings = (Stop.ANSWERED,) * (len(exchanges) - 1)
    return Trajectory(task, "e", 0, tuple(turns), stop, TOOLS, tuple(probes), endings=endings)


def test_a_conversation_succeeds_if_every_message_does() -> None:
    trajectory = episode(*HONEST)
    assert is_success(trajectory)
    assert successes_of(trajectory) == (True, True, True)
    assert succeeded(trajectory, Reward(0.0, {}))


def test_an_exchange_has_its_own_turns_truth_probes_and_stop() -> None:
    first, second, third = exchanges_of(episode(*HONEST[:2], (did(QUOTE),), stop=Stop.MAX_TURNS))
    assert [exchange.task.truth for exchange in (first, second, third)] == [PRICE, POSTED, NAME]
    assert [len(exchange.turns) for exchange in (first, second, third)] == [2, 2, 1]
    assert [exchange.stop for exchange in (first, second, third)] == [
        Stop.ANSWERED,
        Stop.ANSWERED,
        Stop.MAX_TURNS,
    ]
    assert (len(first.probes), len(second.probes)) == (0, 1)
    assert second.task.prompt == (
        Message("user", "What does AAPL cost?"),
        Message("user", "Post it to general."),
    )


CHEATS: dict[str, tuple[tuple[Turn, ...], ...]] = {
    "the change is made before it is asked for": (
        (LOOK, POSTING, said("182.31")),
        (said("Posted."),),
        HONEST[2],
    ),
    "the change is made before it is asked for, and again": (
        (LOOK, POSTING, said("182.31")),
        *HONEST[1:],
    ),
    "the change is made after the next message": (HONEST[0], (said("Posted."),), (POSTING, *HONEST[2])),
    "a later answer is given early": (
        HONEST[0],
        (POSTING, said("Ada Lovelace")),
        (said("As I said before."),),
    ),
    "the first answer is given late": ((LOOK, said("Later.")), HONEST[1], (said("182.31, Ada Lovelace"),)),
    "the look-up is made late": ((said("182.31"),), (LOOK, *HONEST[1]), HONEST[2]),
    "the conversation is given up": HONEST[:2],
    "only the last message is answered": ((said("?"),), (said("?"),), HONEST[2]),
}


@pytest.mark.parametrize("exchanges", CHEATS.values(), ids=CHEATS)
async def test_cheats_across_messages_earn_nothing(exchanges: tuple[tuple[Turn, ...], ...]) -> None:
    stop = Stop.ANSWERED if len(exchanges) == 3 else Stop.MAX_TURNS
    trajectory = episode(*exchanges, stop=stop)
    assert not is_success(trajectory)
    async with Rewards() as rewards:
        assert (await rewards.score(trajectory)).total == 0.0


async def test_a_partial_outcome_is_the_share_of_messages_that_hold() -> None:
    async with Rewards((RewardTerm("outcome", 1.0, {"partial": True}),)) as rewards:
        assert (await rewards.score(episode(*HONEST))).total == 1.0
        wrong = episode(HONEST[0], HONEST[1], (said("Charles Babbage"),))
        assert (await rewards.score(wrong)).total == pytest.approx(2 / 3)
        cut_off = episode(HONEST[0], stop=Stop.MAX_TURNS)
        assert (await rewards.score(cut_off)).total == 0.0


async def test_an_answer_before_the_turns_ran_out_still_counts_as_a_part() -> None:
    sent = replace(episode(HONEST[0], stop=Stop.MAX_TURNS), endings=(Stop.ANSWERED,))
    probes = (ProbeResult(PROBE, "", is_error=False, message=1),)
    assert successes_of(replace(sent, probes=probes)) == (True, False, False)


@pytest.mark.parametrize("part", ["answer", "writes", "probes", "required_tools"])
async def test_a_part_holds_only_if_it_holds_for_every_message(part: str) -> None:
    async with Rewards((RewardTerm(part),)) as rewards:
        assert (await rewards.score(episode(*HONEST))).total == 1.0
        late = episode((said("?"),), (said("Posted."),), (LOOK, POSTING, said("Ada Lovelace")))
        assert (await rewards.score(late)).total == 0.0
        assert (await rewards.score(episode(HONEST[0], stop=Stop.MAX_TURNS))).total == 0.0


async def test_milestones_count_over_all_messages() -> None:
    follow_up = FollowUp("Post.", Truth(milestones=(POST,)))
    task = Task("t", "Look.", truth=Truth(answer=Answer("x"), milestones=(QUOTE,)), conversation=(follow_up,))
    async with Rewards((RewardTerm("answer"), RewardTerm("milestones", 0.5))) as rewards:
        both = await rewards.score(episode((LOOK, said("x")), (POSTING, said("y")), task=task))
        early = await rewards.score(episode((LOOK, POSTING, said("x")), (said("y"),), task=task))
    assert (both.parts["milestones"], early.parts["milestones"]) == (1.0, 0.5)


def test_numbers_that_the_user_said_later_may_be_repeated() -> None:
    task = Task(
        "t",
        "What is it?",
        answer="x",
        conversation=(FollowUp("And of 3000 shares?", Truth(answer=Answer(12.5, Matcher.NUMERIC))),),
    )
    assert is_success(episode((said("x"),), (said("The price of 3000 shares is 12.5"),), task=task))


def test_changes_that_could_be_made_too_early_cannot_be_scored() -> None:
    outcome = (RewardTerm("outcome"),)
    assert why_unscorable(TASK, outcome) is None
    loose = replace(TASK, truth=replace(PRICE, writes=None))
    assert "message 2 checks changes, and message 1 allows any" in str(why_unscorable(loose, outcome))
    idle = replace(TASK, conversation=(FollowUp("Thanks.", Truth()),))
    assert "message 2: its truth asks for nothing" in str(why_unscorable(idle, outcome))


# --- an exchange that a tool ends ---------------------------------------------------------------------------

CLOSED = Task("t", "Post it and stop.", truth=Truth(writes=POSTED.writes, ends_with=POST))


@pytest.mark.parametrize(
    ("turns", "stop", "earns"),
    [
        ((POSTING,), Stop.ENDED_BY_CALL, True),
        ((POSTING, said("Posted.")), Stop.ANSWERED, False),
        ((did(POST, cause=Cause.TOOL_ERROR, message="182.31"), said("Posted.")), Stop.ANSWERED, False),
        ((POSTING,), Stop.MAX_TURNS, False),
    ],
    ids=["called", "answered instead", "failed", "cut off"],
)
def test_an_exchange_that_a_call_ends_needs_that_call(
    turns: tuple[Turn, ...], stop: Stop, earns: bool
) -> None:
    assert is_success(episode(turns, task=CLOSED, stop=stop)) is earns
