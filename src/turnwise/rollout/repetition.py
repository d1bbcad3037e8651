"""Find where an episode repeats itself: equal turns in a row, or a few turns that come back in turn.

Two turns are equal if both are malformed in the same way, or if both make equal calls and read equal results.
What the model says or thinks next to a call is not compared. A turn that answers a user message begins anew.
"""

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.types import FormatErrorKind, Stop, ToolCall, ToolResult, Trajectory, Turn

MAX_REPEATS = 3
"""Equal failing turns that end an episode. Two happen by accident; where there were more, they went on to the
limit: 58 of 200 episodes wrote 1,100 malformed turns (1.5B, temperature 0)."""

POLLS = 2
"""Turns that calls without an error may take longer: a poll may return "pending" a few times."""

LONGEST_CYCLE = 3
"""Turns of the longest cycle that is looked for: `A B C A B C A B C`."""

SAME_RESULT = "(The same call gave the same result before.)"
"""Appended to the second equal result if the recipe asks for it."""


class Loop(StrEnum):
    """What is repeated."""

    MALFORMED = "malformed"
    """Turns that are neither a call nor an answer."""
    REFUSED = "refused"
    """Calls that fail, some of them possibly malformed."""
    SAME_RESULT = "same_result"
    """Calls of which at least one succeeds, with the results that they gave before."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A block of turns that occurs several times in a row: turns `start` to `end`, both included."""

    loop: Loop
    start: int
    end: int
    cycle: int
    """Turns of one round."""

    @property
    def num_rounds(self) -> int:
        return (self.end - self.start + 1) // self.cycle


def find_repetition(turns: Sequence[Turn], max_repeats: int = MAX_REPEATS) -> Repetition | None:
    """Return the repetition that the last turn completes, or None.

    It takes `max_repeats` rounds; if a call in it succeeds, it also takes `max_repeats + POLLS` turns:

        max_repeats = 3      x x x        A A A A A        A B A B A B
                             failing      succeeding       either
    """
    return _found(turns, _comparable(turns), len(turns), max_repeats)


def first_repetition(turns: Sequence[Turn], max_repeats: int = MAX_REPEATS) -> Repetition | None:
    """Return the first repetition of an episode, which may have gone on after it; None if it has none."""
    keys = _comparable(turns)
    repetitions = (_found(turns, keys, end, max_repeats) for end in range(1, len(turns) + 1))
    return next((repetition for repetition in repetitions if repetition is not None), None)


def repeats_itself(trajectory: Trajectory) -> bool:
    """Whether an episode ended because it repeated itself, or would have with the default `max_repeats`."""
    return trajectory.stop is Stop.REPEATED or first_repetition(trajectory.turns) is not None


def rounds(turns: Sequence[Turn], cycle: int = 1) -> int:
    """Return how often in a row the last `cycle` turns occur; 1 if they are new, 0 after a text."""
    return _rounds(_comparable(turns), len(turns), cycle)


def is_known(call: ToolCall, result: ToolResult, earlier: Iterable[Turn]) -> bool:
    """Whether an earlier turn made an equal call that gave an equal result."""
    key = _call_key(call, result)
    return any(
        key == _call_key(*pair)
        for turn in earlier
        for pair in zip(turn.parsed.calls, turn.results, strict=False)
    )


def _found(
    turns: Sequence[Turn], keys: Sequence[Hashable | None], end: int, max_repeats: int
) -> Repetition | None:
    for cycle in range(1, LONGEST_CYCLE + 1):
        num_rounds = _rounds(keys, end, cycle)
        if num_rounds < max_repeats or num_rounds < 2:
            continue
        start = end - cycle * num_rounds
        loop = _loop_of(turns[start : start + cycle])
        if loop is not Loop.SAME_RESULT or end - start >= max_repeats + POLLS:
            return Repetition(loop, start, end - 1, cycle)
    return None


def _rounds(keys: Sequence[Hashable | None], end: int, cycle: int) -> int:
    """Return how often in a row the `cycle` keys before `end` occur."""
    last = keys[max(end - cycle, 0) : end]
    if len(last) < cycle or None in last:
        return 0
    num_rounds = 1
    while keys[max(end - cycle * (num_rounds + 1), 0) : end - cycle * num_rounds] == last:
        num_rounds += 1
    return num_rounds


def _comparable(turns: Sequence[Turn]) -> list[Hashable | None]:
    """Return a key for every turn, equal for equal turns that answer the same message.

    It is None for a text, which may be an answer, and for a turn of the demonstration that was given.
    """
    keys: list[Hashable | None] = []
    num_said = 0
    for turn in turns:
        num_said += bool(turn.user)
        key = _key(turn)
        keys.append(None if key is None else (num_said, key))
    return keys


def _key(turn: Turn) -> Hashable | None:
    parsed = turn.parsed
    if parsed.error is not None:
        written: Hashable = parsed.error.written or parsed.text
        if not parsed.error.written and parsed.error.kind is not FormatErrorKind.EMPTY:
            written = (parsed.text, turn.completion.token_ids)
        return (parsed.error.kind, parsed.error.message, written)
    if turn.is_given or not parsed.calls:
        return None
    return tuple(_call_key(call, result) for call, result in zip(parsed.calls, turn.results, strict=False))


def _call_key(call: ToolCall, result: ToolResult) -> Hashable:
    content = result.content.removesuffix(SAME_RESULT).rstrip()
    return (call.name, json.dumps(dict(call.arguments), sort_keys=True), result.cause, content)


def _loop_of(block: Sequence[Turn]) -> Loop:
    if any(not result.is_error for turn in block for result in turn.results):
        return Loop.SAME_RESULT
    return Loop.REFUSED if any(turn.results for turn in block) else Loop.MALFORMED
