"""Where an episode goes wrong, and what is left of its task's plan from there.

A call of the plan is done if the model made it: equal name and arguments, and failed or not as in the plan.
The model's order may differ, except that no call counts before a change or a question that comes first in the
plan.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from turnwise.rollout.repetition import is_known
from turnwise.tasks.user_side import UserSide
from turnwise.types import DemoTurn, Finish, Task, Tool, ToolCall, ToolResult, Trajectory, Turn


class Trouble(StrEnum):
    """How an episode goes wrong."""

    REPEATED = "repeated"
    """Calls that were made before, with the results that they gave before."""
    REFUSED = "refused"
    """As `REPEATED`, and all of the calls fail."""
    MALFORMED = "malformed"
    """A turn that is neither a call nor an answer."""
    CUT = "cut"
    """A turn that a token limit cut off."""
    EARLY_TEXT = "early_text"
    """An answer or a question in words, although the plan has calls left."""
    WRONG_END = "wrong_end"
    """The last turn, after which the episode was over without success."""
    STRAYED = "strayed"
    """The first call that is no step of the plan, in an episode that reached a limit."""
    WRONG_CHANGE = "wrong_change"
    """A call that changes something and is no step of the plan."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """The point at which the plan takes over from the model."""

    trouble: Trouble
    num_kept: int
    """The model's turns before it. A turn after which nothing can follow is not kept."""
    remaining: tuple[DemoTurn, ...]
    """The turns of the plan from there to the end of the episode."""


def find_takeover(failed: Trajectory, *, is_before_changes: bool = False) -> Takeover | None:
    """Return where the plan can take over in an episode that failed; None if nothing in it goes wrong.

    plan      search          read  write  answer
    episode   search  search                         kept: 2, remaining: read, write, answer

    `is_before_changes`: the plan takes the place of a change that it does not make; None if there is none.
    """
    exchanges = _exchanges(failed.task, failed.tools)
    steps = [_steps(exchange, failed.tools) for exchange in exchanges]
    strayed = None
    for index, turn in enumerate(failed.turns):
        left, before = steps[turn.message], list(steps[turn.message])
        done = [_cross_off(left, key) for key in _done(failed.turns, index)]
        if is_before_changes and _changes(turn, done, failed.tools):
            return Takeover(Trouble.WRONG_CHANGE, index, _remaining(exchanges, before, turn.message))
        if any(done):
            continue
        trouble = _trouble(failed.turns, index, is_early=bool(left))
        if trouble is not None:
            num_kept = index if trouble in (Trouble.CUT, Trouble.EARLY_TEXT) else index + 1
            takeover = Takeover(trouble, num_kept, _remaining(exchanges, left, turn.message))
            return None if is_before_changes else takeover
        if strayed is None and turn.parsed.calls:
            strayed = Takeover(Trouble.STRAYED, index + 1, _remaining(exchanges, left, turn.message))
    if is_before_changes or not failed.turns:
        return None
    if not failed.stop.is_finished:
        return strayed
    message = failed.turns[-1].message
    remaining = _remaining(exchanges, steps[message], message)
    return Takeover(Trouble.WRONG_END, len(failed.turns) - 1, remaining)


def _changes(turn: Turn, done: Sequence[bool], tools: Sequence[Tool]) -> bool:
    """Whether a call of the turn that is no step of the plan may have changed something."""
    readers = _readers(tools)
    calls = zip(turn.parsed.calls, turn.results, done, strict=False)
    return any(not (is_done or result.is_error or call.name in readers) for call, result, is_done in calls)


def _trouble(turns: Sequence[Turn], index: int, *, is_early: bool) -> Trouble | None:
    """Return what is wrong with a turn that did no step of the plan."""
    turn = turns[index]
    if turn.completion.finish is Finish.LENGTH:
        return Trouble.CUT
    if turn.parsed.error is not None:
        return Trouble.MALFORMED
    if not turn.parsed.calls:
        return Trouble.EARLY_TEXT if is_early else None
    # After another user message, the same call may be meant again.
    earlier = [past for past in turns[:index] if past.message == turn.message]
    pairs = list(zip(turn.parsed.calls, turn.results, strict=False))
    if not pairs or not all(is_known(call, result, earlier) for call, result in pairs):
        return None
    return Trouble.REFUSED if all(result.is_error for _, result in pairs) else Trouble.REPEATED


@dataclass(frozen=True, slots=True)
class _PlannedTurn:
    """A turn of the plan, and what the user replies to it; empty if it makes calls or is an answer."""

    turn: DemoTurn
    reply: str


@dataclass(frozen=True, slots=True)
class _Step:
    """A call of the plan, or a question to the user."""

    key: Hashable
    turn: int
    """Counted within the exchange."""
    place: int
    """The call's place in its turn."""
    is_passable: bool
    """Whether later steps may be done before it: it only reads."""


def _exchanges(task: Task, tools: Sequence[Tool]) -> list[list[_PlannedTurn]]:
    """Return the plan's turns for each user message."""
    user = UserSide(task, tools)
    exchanges: list[list[_PlannedTurn]] = [[] for _ in task.truths]
    for number, turn in enumerate(task.demonstration):
        message = user.message
        ending, said = user.answer_shown(number)
        reply = said.text if ending is None and said is not None else ""
        exchanges[message].append(_PlannedTurn(turn, reply))
    return exchanges


def _steps(exchange: Sequence[_PlannedTurn], tools: Sequence[Tool]) -> list[_Step]:
    readers = _readers(tools)
    steps = []
    for number, planned in enumerate(exchange):
        calls, results = planned.turn.calls, planned.turn.results
        for place, call in enumerate(calls):
            key = _call_key(call, results[place] if results else None)
            steps.append(_Step(key, number, place, is_passable=call.name in readers))
        if planned.reply:
            steps.append(_Step(("question", planned.reply), number, 0, is_passable=False))
    return steps


def _done(turns: Sequence[Turn], index: int) -> Iterator[Hashable]:
    """Yield the keys of the steps that a turn of the episode does."""
    turn = turns[index]
    for call, result in zip(turn.parsed.calls, turn.results, strict=False):
        yield _call_key(call, result)
    if not turn.parsed.calls and index + 1 < len(turns) and turns[index + 1].message == turn.message:
        yield ("question", turns[index + 1].user)


def _call_key(call: ToolCall, result: ToolResult | None) -> Hashable:
    sent = dict(call.arguments) if result is None else result.sent(call.arguments)
    return (call.name, json.dumps(sent, sort_keys=True), result is not None and result.is_error)


def _readers(tools: Sequence[Tool]) -> set[str]:
    return {tool.name for tool in tools if tool.is_read_only}


def _cross_off(left: list[_Step], key: Hashable) -> bool:
    """Remove the step that was done, and return whether it is one that can be done now."""
    for number, step in enumerate(left):
        if step.key == key:
            del left[number]
            return True
        if not step.is_passable:
            return False
    return False


def _remaining(
    exchanges: Sequence[Sequence[_PlannedTurn]], left: Sequence[_Step], message: int
) -> tuple[DemoTurn, ...]:
    """Return the plan's turns from `message` on, of which only these steps and the answer are left."""
    places = {(step.turn, step.place) for step in left}
    turns = []
    for number, planned in enumerate(exchanges[message]):
        turn, kept = planned.turn, [place for at, place in sorted(places) if at == number]
        if kept and turn.calls:
            results = tuple(turn.results[place] for place in kept if turn.results)
            turns.append(replace(turn, calls=tuple(turn.calls[place] for place in kept), results=results))
        elif kept or not (turn.calls or planned.reply):
            turns.append(turn)
    return (*turns, *(planned.turn for later in exchanges[message + 1 :] for planned in later))
