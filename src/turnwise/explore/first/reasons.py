"""Why a tool is in no task, in words: what was seen, not what is likely."""

from collections import Counter
from dataclasses import dataclass, field

from turnwise.explore.first.survey import ToolRecord
from turnwise.explore.first.tool_verbs import is_deprecated

NEEDS = {"key": "it needs a key", "network": "it needs a network", "login": "it needs a login"}
_MAX_ERROR_CHARS = 160


@dataclass(frozen=True, slots=True)
class ToolHistory:
    """What happened to one tool in all stages."""

    record: ToolRecord
    is_writer: bool = False
    """Whether it was tried as a tool that changes something."""
    num_stable: int = 0
    """Answers that were the same in a fresh session, apart from single fields."""
    num_differing: int = 0
    """Answers that were not."""
    num_cut: int = 0
    """Stable answers that exceed the result budget."""
    num_of_today: int = 0
    """Stable answers that name the current date."""
    num_drafts: int = 0
    why_not_worth: str = ""
    """Why its answers are not worth a question, empty if they are."""
    rejections: Counter[str] = field(default_factory=Counter)
    num_not_verified: int = 0
    why_not_verified: str = ""
    why_stopped: str = ""
    """Why its server was not explored to the end, empty if it was."""


def why_in_no_task(seen: ToolHistory) -> str:
    """Return the reason of the last stage that the tool came to."""
    record = seen.record
    if record.needs:
        return NEEDS[record.needs]
    if is_deprecated(record.tool):
        return "its description says that it is deprecated"
    if not record.num_answers:
        return _why_no_answer(seen)
    if seen.num_drafts:
        return _why_no_draft_passed(seen)
    if seen.is_writer and not record.observations:
        why = "it changed nothing that another call shows"
        return _stopped("no change by it was found", seen) or why
    return _why_no_draft(seen)


def _stopped(what: str, seen: ToolHistory) -> str:
    return f"{what}: {seen.why_stopped}" if seen.why_stopped else ""


def _why_no_draft_passed(seen: ToolHistory) -> str:
    left = f"{seen.num_not_verified} programs not verified: {seen.why_not_verified}"
    if not seen.rejections:
        return left
    reason, count = seen.rejections.most_common(1)[0]
    num = seen.rejections.total()
    words = f"no program of {num} passed: {reason}" + (f" ({count} times)" if 1 < count < num else "")
    return f"{words}; {left}" if seen.num_not_verified else words


def _why_no_answer(seen: ToolHistory) -> str:
    if not seen.record.num_calls:
        return _stopped("it was not called", seen) or "no value for one of its parameters was found"
    if seen.record.num_empty:
        return "its answers are empty: nothing can be asked"
    error = " ".join(seen.record.last_error.split())
    return f"no call succeeded; the last error: {error[:_MAX_ERROR_CHARS]}"


def _why_no_draft(seen: ToolHistory) -> str:
    differ = "its answers differ from session to session"
    late = _stopped("its answers were not repeated", seen) or "its answers could not be repeated"
    reasons = (
        (bool(seen.why_not_worth), seen.why_not_worth),
        (not seen.num_stable, differ if seen.num_differing else late),
        (seen.num_of_today >= seen.num_stable, "its answers depend on the day"),
        (seen.num_cut >= seen.num_stable, "its answers exceed the result budget"),
        (seen.is_writer, "it changes what other tools answer, and no call shows the change"),
    )
    return next((why for holds, why in reasons if holds), "its answers hold nothing that can be asked for")
