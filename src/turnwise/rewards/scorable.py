"""Whether a task can be scored by a reward: the one rule that every check and every run applies."""

from collections.abc import Callable, Mapping, Sequence

from turnwise.rewards.judge import NO_RUBRIC
from turnwise.rewards.outcome import ASKS_NOTHING, asks_something
from turnwise.rewards.part import RewardTerm
from turnwise.types import Task, Truth

ALWAYS_THE_SAME: Mapping[str, Callable[[Truth], bool]] = {
    "answer": lambda truth: truth.answer is None,
    "writes": lambda truth: truth.writes is None,
    "probes": lambda truth: not truth.probes,
    "required_tools": lambda truth: not (truth.required_tools or truth.min_tool_calls),
    "forbidden_tools": lambda truth: not truth.forbidden_tools,
    "milestones": lambda truth: not truth.milestones,
}
"""By part, whether it has the same value for every episode of a task with this truth."""


def why_unscorable(task: Task, parts: Sequence[RewardTerm]) -> str | None:
    """Return why no episode of this task can be scored, or why all would score the same; None if neither."""
    names = {part.name for part in parts}
    if names & {"outcome", "efficiency"}:
        for message, truth in enumerate(task.truths):
            if not asks_something(truth):
                return ASKS_NOTHING if not message else f"message {message + 1}: {ASKS_NOTHING}"
    for part in parts:
        rubrics = (*(truth.rubric for truth in task.truths), part.options.get("rubric", ""))
        if part.name == "judge" and not any(rubric.strip() for rubric in rubrics):
            return NO_RUBRIC
    if names & {"outcome", "writes", "probes", "efficiency"} and (why := _why_too_early(task.truths)):
        return why
    if all(name in ALWAYS_THE_SAME and all(map(ALWAYS_THE_SAME[name], task.truths)) for name in names):
        wanted = " or ".join(f"truth.{name}" for name in sorted(names))
        return f"every episode would score the same: the reward needs {wanted}"
    return None


def _why_too_early(truths: Sequence[Truth]) -> str | None:
    """Return why a change could be made before the user asks for it, unnoticed; None if it could not."""
    last = max((message for message, truth in enumerate(truths) if truth.writes or truth.probes), default=0)
    for message, truth in enumerate(truths[:last]):
        if truth.writes is None:
            return (
                f"message {last + 1} checks changes, and message {message + 1} allows any: "
                "say with `writes` which changes it makes ([] for none)"
            )
    return None


def why_unscorable_by(parts: Sequence[RewardTerm]) -> Callable[[Task], str | None]:
    """Return `why_unscorable` bound to the parts of one reward."""
    return lambda task: why_unscorable(task, parts)


def check_scorable(tasks: Sequence[Task], parts: Sequence[RewardTerm]) -> None:
    """Raise ValueError if a task cannot be scored; it names the first one and what to add to it."""
    for task in tasks:
        why = why_unscorable(task, parts)
        if why is not None:
            raise ValueError(f"task {task.id!r}: {why}")
