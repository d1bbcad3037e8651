"""Tools and their calls: what a model is offered, and how a call ended."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


class Fault(StrEnum):
    """Who is to blame for a failed call. Only the model's own faults affect its reward."""

    NONE = "none"
    """The call succeeded."""
    MODEL = "model"
    """The call itself was wrong: the model sees the error and is scored."""
    INFRA = "infra"
    """Servers, network or limits of ours failed: the episode is dropped and played again."""


class Cause(StrEnum):
    """How a tool call ended; `fault` says who is to blame."""

    OK = "ok"
    UNKNOWN_TOOL = "unknown_tool"
    """The episode has no tool of that name."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments do not fit the tool's schema; the server was not asked."""
    TOOL_ERROR = "tool_error"
    """The tool ran and reported an error."""
    TOO_LARGE = "too_large"
    """The arguments are larger than a call may be."""
    TOO_SLOW = "too_slow"
    """No reply within the server's time limit, and again none when the episode was repeated."""
    BROKE_SERVER = "broke_server"
    """The server failed in this call, and again in the same call of a repeated episode."""
    TIMEOUT = "timeout"
    """No reply within the server's time limit."""
    CLOSED = "closed"
    """The connection ended before the reply."""
    SPAWN_FAILED = "spawn_failed"
    """The server could not be started or reached."""
    BREAKER_OPEN = "breaker_open"
    """The server failed too often, so calls to it are refused for a while."""
    BAD_REPLY = "bad_reply"
    """The reply was not valid MCP, or too large."""
    UPSTREAM = "upstream"
    """The server reported that a provider behind it failed."""
    NOT_RECORDED = "not_recorded"
    """The cassette that is replayed holds no such call."""

    @property
    def fault(self) -> Fault:
        """NONE for a result, MODEL for a mistake in the call itself, INFRA for everything else."""
        if self is Cause.OK:
            return Fault.NONE
        return Fault.MODEL if self in _MODEL_CAUSES else Fault.INFRA


_MODEL_CAUSES = {
    Cause.UNKNOWN_TOOL,
    Cause.BAD_ARGUMENTS,
    Cause.TOOL_ERROR,
    Cause.TOO_LARGE,
    Cause.TOO_SLOW,
    Cause.BROKE_SERVER,
}


def qualified_name(server: str, tool: str) -> str:
    """Return `server__tool`; characters of the server that model APIs do not allow become `_`."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__{tool}"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model sees it: its name in this episode and the schema its server declares."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    server: str
    server_tool: str
    is_read_only: bool = False
    is_idempotent: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call can be retried if it is unknown whether it ran."""
        return self.is_read_only or self.is_idempotent

    @property
    def qualified_name(self) -> str:
        """The name it gets if several servers have a tool of that name."""
        return qualified_name(self.server, self.server_tool)

    def is_named_by(self, patterns: Sequence[str] | None) -> bool:
        """Whether a shell pattern matches its name, its server's name for it or `server__tool`; None: all."""
        if patterns is None:
            return True
        names = (self.name, self.server_tool, self.qualified_name)
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call parsed from the model's tokens."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call: the text the model reads, and what scoring and viewing need."""

    call_id: str
    content: str
    cause: Cause
    seconds: float
    num_retries: int = 0
    repairs: tuple[str, ...] = ()
    """Argument names repaired before the call, as `given->used`."""
    is_replayed: bool = False
    is_provable: bool = False
    """Whether this fault is the model's if the same call of a repeated episode meets it again."""
    hint: str = ""
    """What to write instead of refused arguments; in `content` too if the episode tells the model."""

    @property
    def is_error(self) -> bool:
        return self.cause is not Cause.OK

    @property
    def fault(self) -> Fault:
        return self.cause.fault

    def sent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The call's arguments under the names that were sent to the server."""
        names = dict(repair.split("->", 1) for repair in self.repairs)
        return {names.get(name, name): value for name, value in arguments.items()}


@dataclass(frozen=True, slots=True)
class ServerLoss:
    """A server that could not be started, or that died during a lease."""

    server: str
    message: str
    exit_code: int | None = None
    stderr_tail: tuple[str, ...] = ()
    is_state_lost: bool = False
    """Whether the episode had state there. If so, it cannot continue on a restarted server."""


@dataclass(frozen=True, slots=True)
class LiveServer:
    """One of our servers that calls a real provider; `name` is its name in `mcp.json`."""

    name: str
    service: str
    """The provider's display name, such as `Slack`."""
    reads: tuple[str, ...]
    """Tools that only read."""
    writes: Mapping[str, str]
    """Tools that change something at the provider, and what they do."""
    may_write: bool

    @property
    def withheld(self) -> tuple[str, ...]:
        """Tools that episodes are not offered."""
        return () if self.may_write else tuple(self.writes)
