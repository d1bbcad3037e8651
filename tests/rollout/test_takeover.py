"""Where the plan takes over, and what is left of it, on episodes as they are recorded."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, TOOLS, did, garbled, said, together
from turnwise.rollout.takeover import Takeover, Trouble, find_takeover
from turnwise.types import (
    Cause,
    Completion,
    DemoTurn,
    Finish,
    FollowUp,
    FormatErrorKind,
    Message,
    Parsed,
    ScriptedUser,
    Stop,
    Task,
    Trajectory,
    Truth,
    Turn,
    UserRule,
)


def planned(turn: Turn) -> DemoTurn:
    """The turn as a demonstration has it."""
    return DemoTurn(turn.parsed.text, turn.parsed.calls, turn.results)


LOOK, READ = did(QUOTE, "12.5", symbol="A"), did(HISTORY, "[]", channel="c")
POSTED = did(POST, channel="c", message="12.5")
DONE = said("Posted.")
PLAN = [LOOK, READ, POSTED, DONE]


def task(plan: Sequence[Turn] = PLAN, **more: object) -> Task:
    return Task("t", (Message("user", "Post it."),), demonstration=tuple(map(planned, plan)), **more)  # type: ignore[arg-type]


def failed(turns: Sequence[Turn], stop: Stop = Stop.MAX_TURNS, wanted: Task | None = None) -> Trajectory:
    return Trajectory(wanted or task(), "t/0.0", 0, tuple(turns), stop, tools=TOOLS)


def left(plan: Sequence[Turn]) -> tuple[DemoTurn, ...]:
    return tuple(map(planned, plan))


REFUSED = did(QUOTE, "error: no such symbol", Cause.TOOL_ERROR, symbol="B")
CUT = replace(said("I will now"), completion=Completion((1,), (0.0,), Finish.LENGTH, 0))


@pytest.mark.parametrize(
    ("turns", "trouble", "num_kept", "remaining"),
    [
        ([LOOK, LOOK, LOOK], Trouble.REPEATED, 2, [READ, POSTED, DONE]),
        ([REFUSED, LOOK, REFUSED], Trouble.REFUSED, 3, [READ, POSTED, DONE]),
        ([LOOK, garbled(), garbled()], Trouble.MALFORMED, 2, [READ, POSTED, DONE]),
        ([garbled(FormatErrorKind.EMPTY)], Trouble.MALFORMED, 1, PLAN),
        ([LOOK, CUT], Trouble.CUT, 1, [READ, POSTED, DONE]),
        ([LOOK, said("Which channel?")], Trouble.EARLY_TEXT, 1, [READ, POSTED, DONE]),
        ([said("12.5")], Trouble.EARLY_TEXT, 0, PLAN),
        ([READ, LOOK, POSTED, said("No.")], Trouble.WRONG_END, 3, [DONE]),
    ],
)
def test_the_plan_takes_over_with_what_is_left(
    turns: list[Turn], trouble: Trouble, num_kept: int, remaining: list[Turn]
) -> None:
    stop = Stop.ANSWERED if not turns[-1].parsed.calls else Stop.MAX_TURNS
    assert find_takeover(failed(turns, stop)) == Takeover(trouble, num_kept, left(remaining))


OTHER, SPOILED = did(QUOTE, "3", symbol="C"), did(POST, channel="c", message="3")


def test_in_an_episode_that_strays_to_a_limit_the_plan_takes_over_after_the_first_such_call() -> None:
    found = find_takeover(failed([LOOK, OTHER, REFUSED]))
    assert found == Takeover(Trouble.STRAYED, 2, left([READ, POSTED, DONE]))


def test_an_episode_that_did_only_what_the_plan_does_has_no_place_to_take_over() -> None:
    assert find_takeover(failed([LOOK, READ])) is None
    assert find_takeover(failed([])) is None


def test_the_plan_takes_the_place_of_a_change_that_it_does_not_make() -> None:
    spoiled = failed([LOOK, SPOILED, READ, LOOK])
    assert find_takeover(spoiled) == Takeover(Trouble.REPEATED, 4, left([POSTED, DONE]))
    before = find_takeover(spoiled, is_before_changes=True)
    assert before == Takeover(Trouble.WRONG_CHANGE, 1, left([READ, POSTED, DONE]))
    twice = find_takeover(failed([POSTED, POSTED]), is_before_changes=True)
    assert twice == Takeover(Trouble.WRONG_CHANGE, 1, left([LOOK, READ, DONE]))
    beside = find_takeover(failed([together(LOOK, SPOILED)]), is_before_changes=True)
    assert beside == Takeover(Trouble.WRONG_CHANGE, 0, left(PLAN))
    refused = did(POST, "error: no such channel", Cause.TOOL_ERROR, channel="d")
    for harmless in ([LOOK, OTHER, LOOK], [LOOK, LOOK, SPOILED], [refused, refused]):
        assert find_takeover(failed(harmless), is_before_changes=True) is None


def test_a_call_that_the_plan_repeats_is_not_a_repetition() -> None:
    plan = [READ, POSTED, READ, DONE]
    found = find_takeover(failed([READ, POSTED, READ, READ], wanted=task(plan)))
    assert found == Takeover(Trouble.REPEATED, 4, left([DONE]))
    # Read twice before the change: the second reading is no part of the plan yet.
    early = find_takeover(failed([READ, READ], wanted=task(plan)))
    assert early == Takeover(Trouble.REPEATED, 2, left([POSTED, READ, DONE]))


def test_of_a_turn_with_several_calls_those_are_left_that_were_not_made() -> None:
    plan = [together(LOOK, READ), POSTED, DONE]
    found = find_takeover(failed([READ, garbled()], wanted=task(plan)))
    assert found == Takeover(Trouble.MALFORMED, 2, left([LOOK, POSTED, DONE]))


def test_a_failed_call_is_not_done_unless_it_fails_in_the_plan_too() -> None:
    broken = did(QUOTE, "error", Cause.TOOL_ERROR, symbol="A")
    found = find_takeover(failed([broken, garbled()]))
    assert found is not None
    assert found.remaining == left(PLAN)
    mending = [REFUSED, LOOK, DONE]
    found = find_takeover(failed([REFUSED, garbled()], wanted=task(mending)))
    assert found is not None
    assert found.remaining == left([LOOK, DONE])


def test_a_question_is_done_if_it_got_the_reply_that_the_plan_got() -> None:
    user = ScriptedUser((UserRule("[Ww]hich", "Channel c."),))
    plan = [said("Which channel?"), POSTED, DONE]
    asking = task(plan, user=user)
    answered = replace(garbled(), user="Channel c.")
    found = find_takeover(failed([said("Tell me which."), answered], wanted=asking))
    assert found == Takeover(Trouble.MALFORMED, 2, left([POSTED, DONE]))
    other = [said("Where?")]
    assert find_takeover(failed(other, Stop.ANSWERED, asking)) == Takeover(Trouble.EARLY_TEXT, 0, left(plan))


def test_each_message_has_its_own_part_of_the_plan() -> None:
    plan = [LOOK, said("12.5"), READ, DONE]
    talk = task(plan, conversation=(FollowUp("And the channel?", Truth()),))
    again = replace(LOOK, user="And the channel?", message=1)
    later = replace(LOOK, message=1)
    found = find_takeover(failed([LOOK, said("12.5"), again, later], wanted=talk))
    assert found == Takeover(Trouble.REPEATED, 4, left([READ, DONE]))
    first = find_takeover(failed([LOOK, LOOK], wanted=talk))
    assert first == Takeover(Trouble.REPEATED, 2, left([said("12.5"), READ, DONE]))


def test_text_beside_a_call_and_repaired_arguments_do_not_matter() -> None:
    spoken = replace(LOOK, parsed=replace(LOOK.parsed, text="Let me look."))
    repaired = did(HISTORY, "[]", repairs=("chan->channel",), chan="c")
    found = find_takeover(
        failed([spoken, repaired, replace(garbled(), parsed=Parsed(error=garbled().parsed.error))])
    )
    assert found is not None
    assert found.remaining == left([POSTED, DONE])
