"""The sandbox's vocabulary: limits, outcomes and errors of an execution."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one execution may use; the defaults leave room for numpy and pandas on tables of a few MB."""

    wall_seconds: float = 10
    cpu_seconds: int = 10
    """Per process."""
    memory_bytes: int = 512 << 20
    """Beyond the interpreter's own; enforced per process by the kernel, for all together by sampling."""
    output_bytes: int = 64 << 10
    """Of stdout and stderr together; also cuts the shown value."""
    value_bytes: int = 1 << 20
    """Of the value as JSON; a larger one is left out."""
    file_bytes: int = 16 << 20
    num_files: int = 64
    num_processes: int = 32
    """Threads count too."""
    tmp_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0:
                raise ValueError(f"{name} must be positive, not {value}")


class ExecutionStop(StrEnum):
    """Why code did not come to its own end; every one of them is the code's doing."""

    NONE = "none"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    KILLED = "killed"
    """By a signal: a crash, or the machine's OOM killer."""
    EXITED = "exited"
    """It ended its own process before there was a result."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What code printed, gave and did wrong. All of it was written by the code: hostile text."""

    stdout: str
    """stdout and stderr as they came."""
    value: str
    """repr of the last expression, empty when there is none."""
    value_json: str | None
    """The same as JSON, when it can be."""
    error: str
    """Traceback, or why it was stopped; empty when all went well."""
    stopped: ExecutionStop
    seconds: float


class NoIsolation(RuntimeError):
    """This machine cannot isolate code; the message says what to install."""


class SandboxDown(RuntimeError):
    """The sandbox itself failed; nothing is known about the code."""
