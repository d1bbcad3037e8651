"""Why a draft is not a task."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason that can be counted, and the details."""

    reason: str
    details: str = ""


THERE_BEFORE = "the change is there before it was made"
NOT_SEEN = "the change cannot be seen"
MOVED = "it is not the same some time later"
SERVER_FAILED = "the server failed"
OUT_OF_TIME = Refusal("time ran out")
"""Not a rejection: the draft was not looked at."""
