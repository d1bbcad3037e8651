"""Split an episode into exchanges: one per user message, each with its own truth."""

from collections.abc import Callable
from dataclasses import replace

from turnwise.types import Message, Stop, Trajectory


def exchanges_of(trajectory: Trajectory) -> tuple[Trajectory, ...]:
    """Return one trajectory per user message that was sent, with its own turns, probes, stop and truth.

    Its prompt is everything the user had said by then. Messages that were never sent have none.
    """
    if not trajectory.task.conversation and not any(turn.user for turn in trajectory.turns):
        return (trajectory,)
    stops = (*trajectory.endings, trajectory.stop)[: len(trajectory.task.truths)]
    return tuple(_exchange(trajectory, message, stop) for message, stop in enumerate(stops))


def holds_throughout(check: Callable[[Trajectory], bool], trajectory: Trajectory) -> bool:
    """Return whether every message of the task was sent, and the check holds for each exchange."""
    exchanges = exchanges_of(trajectory)
    return len(exchanges) == len(trajectory.task.truths) and all(map(check, exchanges))


def _exchange(trajectory: Trajectory, message: int, stop: Stop) -> Trajectory:
    task = trajectory.task
    said = [turn.user for turn in trajectory.turns if turn.message <= message and turn.user]
    return replace(
        trajectory,
        task=replace(
            task,
            prompt=(*task.prompt, *(Message("user", text) for text in said)),
            truth=task.truths[message],
            tools=task.tools_at(message),
            conversation=(),
            user=None,
        ),
        turns=tuple(turn for turn in trajectory.turns if turn.message == message),
        probes=tuple(probe for probe in trajectory.probes if probe.message == message),
        stop=stop,
        endings=(),
    )
