"""The sandbox's vocabulary: limits, outcomes and errors of an execution."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Limits of one execution; the defaults leave room for numpy and pandas on tables of a few MB."""

    wall_seconds: float = 10
    cpu_seconds: int = 10
    """Per process."""
    memory_bytes: int = 512 << 20
    """Beyond the interpreter's own; the kernel enforces it per process, sampling for all together."""
    output_bytes: int = 64 << 10
    """Of stdout and stderr together; the shown value is cut to it as well."""
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
    """Why code was ended early; the code is the cause of each of these."""

    NONE = "none"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    OUTPUT = "output"
    KILLED = "killed"
    """By a signal (a crash, or the machine's OOM killer), or because its result was too large."""
    EXITED = "exited"
    """The code ended its own process before there was a result."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What code printed, returned and raised. The code wrote all of it: it is hostile text."""

    stdout: str
    """stdout and stderr, in the order of writing."""
    value: str
    """repr of the last expression, or of a result variable; empty if there is none."""
    value_json: str | None
    """The value as JSON; None if it cannot be converted or is too large."""
    error: str
    """Traceback, or why the code was stopped; empty if it succeeded."""
    stopped: ExecutionStop
    seconds: float


class NoIsolation(RuntimeError):
    """This machine cannot isolate code; the message says what to install."""


class SandboxDown(RuntimeError):
    """The sandbox itself failed; nothing is known about the code."""
