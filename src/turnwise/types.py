"""The nouns every other module speaks in: frozen data, standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """Whose doing a failed call was; only the model's own is ever rewarded or punished."""

    NONE = "none"
    MODEL = "model"
    INFRA = "infra"


class Cause(StrEnum):
    """How a tool call ended; `fault` says whose doing that was."""

    OK = "ok"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    TOOL_ERROR = "tool_error"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    SPAWN_FAILED = "spawn_failed"
    BREAKER_OPEN = "breaker_open"
    BAD_REPLY = "bad_reply"
    UPSTREAM = "upstream"
    NOT_RECORDED = "not_recorded"

    @property
    def fault(self) -> Fault:
        """NONE for a result, MODEL for what the call itself brought about, INFRA for everything else."""
        if self is Cause.OK:
            return Fault.NONE
        return Fault.MODEL if self in _MODEL_CAUSES else Fault.INFRA


_MODEL_CAUSES = {Cause.UNKNOWN_TOOL, Cause.BAD_ARGUMENTS, Cause.TOOL_ERROR, Cause.TOO_LARGE}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model sees it: its name in this toolbox, and the schema as its server gave it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    server: str
    server_tool: str
    is_read_only: bool = False
    is_idempotent: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that may or may not have run can be made again."""
        return self.is_read_only or self.is_idempotent


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model asked for, as parsed from its tokens."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call gave: the text the model will read, and everything needed to score and to view it."""

    call_id: str
    content: str
    cause: Cause
    seconds: float
    num_retries: int = 0
    repairs: tuple[str, ...] = ()
    """Argument names mended before the call, as `given->used`."""
    is_replayed: bool = False

    @property
    def is_error(self) -> bool:
        return self.cause is not Cause.OK

    @property
    def fault(self) -> Fault:
        return self.cause.fault


@dataclass(frozen=True, slots=True)
class ServerLoss:
    """A server that could not be started, or that died under a lease."""

    server: str
    message: str
    exit_code: int | None = None
    stderr_tail: tuple[str, ...] = ()
    is_state_lost: bool = False
    """Whether the episode kept state there: it cannot go on as if nothing had happened."""
