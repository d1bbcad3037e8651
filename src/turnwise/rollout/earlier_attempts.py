"""What the retry of an episode takes from its attempts that were lost to infrastructure.

A retry is not a new draw. It repeats the turns of the lost attempt on a fresh lease as long as the model
reads the same, and goes on from there: otherwise a model could have every episode drawn anew that goes wrong.
A fault that meets the same call again is the model's. So is one that meets the probes after the last turn in
three attempts: they are calls of ours, so more must be shown.
"""

from collections.abc import Sequence
from dataclasses import replace

from turnwise.types import Cause, Fault, Stop, ToolResult, Trajectory, Turn

_MODELS_OWN = {Cause.TIMEOUT: Cause.TOO_SLOW}
"""What a proven fault is instead; any other is BROKE_SERVER."""


def earlier_turn(
    lost: Sequence[Trajectory], turns: Sequence[Turn], new_ids: Sequence[int], said: str
) -> Turn | None:
    """Return the turn that an earlier attempt took after the same turns; None: the model has to take it."""
    for attempt in lost:
        if len(attempt.turns) > len(turns) and _begins_with(attempt, turns):
            turn = attempt.turns[len(turns)]
            if turn.new_ids == tuple(new_ids) and turn.user == said and not turn.is_given:
                return turn
    return None


def judged(
    lost: Sequence[Trajectory], turns: Sequence[Turn], results: Sequence[ToolResult]
) -> tuple[ToolResult, ...]:
    """Return the results of the last turn's calls; a proven fault is the model's.

    Once one is proven, later ones of the episode need no second attempt: each would void the episode again.
    """
    if turns[-1].is_given:
        return tuple(results)
    is_known = has_own_fault([result for turn in turns for result in turn.results])
    return tuple(
        _blamed(result) if result.is_provable and (is_known or _met_before(lost, turns, place)) else result
        for place, result in enumerate(results)
    )


def num_ended_alike(lost: Sequence[Trajectory], turns: Sequence[Turn], stop: Stop) -> int:
    """Return how many attempts were lost after the same turns for the same reason, and not in a call."""
    return sum(
        attempt.stop is stop and len(attempt.turns) == len(turns) and _begins_with(attempt, turns)
        for attempt in lost
    )


def continues(trajectory: Trajectory, attempt: Trajectory) -> bool:
    """Return whether an episode took all turns that its lost attempt had taken."""
    pairs = zip(attempt.turns, trajectory.turns, strict=False)
    return len(trajectory.turns) >= len(attempt.turns) and all(_says_same(*pair) for pair in pairs)


def has_own_fault(results: Sequence[ToolResult]) -> bool:
    """Return whether one of the results is a proven fault of the model."""
    return any(result.cause in (Cause.TOO_SLOW, Cause.BROKE_SERVER) for result in results)


def _blamed(result: ToolResult) -> ToolResult:
    return replace(result, cause=_MODELS_OWN.get(result.cause, Cause.BROKE_SERVER), is_provable=False)


def _met_before(lost: Sequence[Trajectory], turns: Sequence[Turn], place: int) -> bool:
    """Return whether an attempt was lost after the same turns, in the same call of the same turn."""
    for attempt in lost:
        if len(attempt.turns) == len(turns) and _begins_with(attempt, turns[:-1]):
            last = attempt.turns[-1]
            is_same = _says_same(last, turns[-1]) and place < len(last.results)
            if is_same and last.results[place].fault is Fault.INFRA and last.results[place].is_provable:
                return True
    return False


def _begins_with(attempt: Trajectory, turns: Sequence[Turn]) -> bool:
    return all(
        _says_same(earlier, turn) and _contents(earlier) == _contents(turn)
        for earlier, turn in zip(attempt.turns, turns, strict=False)
    )


def _says_same(one: Turn, other: Turn) -> bool:
    return (
        one.new_ids == other.new_ids
        and one.completion.token_ids == other.completion.token_ids
        and one.parsed == other.parsed
        and one.user == other.user
    )


def _contents(turn: Turn) -> list[str]:
    return [result.content for result in turn.results]
