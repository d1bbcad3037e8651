"""Two verified tasks as one conversation: the second question follows the answer to the first."""

from collections.abc import Sequence
from dataclasses import replace

from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.case import Conclusion
from turnwise.tasks.proof.conversation_cheats import conversation_cheats
from turnwise.tasks.proof.follow import ExchangeRun, PlanRun
from turnwise.tasks.proof.verdict import why_unsound
from turnwise.types import Answer, DemoTurn, FollowUp, Task, Tool


def joined(first: Task, second: Task, follow_up: str) -> Task:
    """Return the conversation of two tasks that only read."""
    [opening, *rest] = second.demonstration
    turns = (*first.demonstration, replace(opening, user=follow_up), *rest)
    return replace(
        first,
        id=f"conversation-{first.id.rpartition('-')[2]}{second.id.rpartition('-')[2]}",
        conversation=(FollowUp(follow_up, second.truth),),
        demonstration=_numbered(turns),
        family="conversation",
        difficulty=max(first.difficulty, second.difficulty, key=["easy", "medium", "hard"].index),
    )


def _numbered(turns: Sequence[DemoTurn]) -> tuple[DemoTurn, ...]:
    """Return the turns with different ids for all calls."""
    number = 0
    found = []
    for turn in turns:
        calls, results = [], []
        for call, result in zip(turn.calls, turn.results, strict=True):
            number += 1
            calls.append(replace(call, id=f"call_{number}"))
            results.append(replace(result, call_id=f"call_{number}"))
        found.append(replace(turn, calls=tuple(calls), results=tuple(results)))
    return tuple(found)


def why_not_sound(task: Task, num_first: int, tools: tuple[Tool, ...]) -> str:
    """Return why the truth of a conversation does not hold; empty if it does."""
    parts = (task.demonstration[:num_first], task.demonstration[num_first:])
    nothing = Conclusion(Answer(""), "")
    played = PlanRun(tuple(ExchangeRun(turns, nothing) for turns in parts))
    return why_unsound(task, (played,), tools, list(conversation_cheats(parts)), is_success)
