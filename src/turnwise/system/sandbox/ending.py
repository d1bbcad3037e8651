"""What became of an execution: its `Execution`, from the zygote's report and what the code wrote.

Everything that the code can cause becomes an `Execution` here, never an exception: an exception would count
as the sandbox's own fault.
"""

import json
import signal
from typing import Any

from turnwise.system.sandbox.execution import Execution, ExecutionStop, SandboxLimits
from turnwise.system.sandbox.inside.report import Reason, Report
from turnwise.system.sandbox.json_depth import MAX_DEPTH, is_deeper

_CPU_SHARE = 0.5
"""A SIGKILL past this share of the CPU limit is attributed to it. The kernel charges whole ticks, so on a
busy machine a process is killed before it has used all of its seconds."""


def execution_of(
    report: Report,
    output: bytes,
    result: bytes,
    limits: SandboxLimits,
    seconds: float,
    *,
    is_output_full: bool,
) -> Execution:
    """Return how the execution ended. `result` is untrusted: the code can write to the result pipe too."""
    stdout = output.decode("utf-8", "replace")
    stopped, error = _stopped(report, limits, is_output_full=is_output_full)
    outcome = _parse_outcome(result) if stopped is ExecutionStop.NONE else None
    if stopped is ExecutionStop.NONE and outcome is None:
        stopped, error = (
            ExecutionStop.EXITED,
            f"the process ended with status {report.exit_code} before a result",
        )
    if outcome is None:
        return Execution(stdout, "", None, error, stopped, seconds)
    return Execution(
        stdout=stdout,
        value=_text(outcome.get("value")),
        value_json=_json_text(outcome.get("value_json")),
        error=_text(outcome.get("error")),
        stopped=ExecutionStop.MEMORY if outcome.get("is_memory") is True else ExecutionStop.NONE,
        seconds=seconds,
    )


def _stopped(report: Report, limits: SandboxLimits, *, is_output_full: bool) -> tuple[ExecutionStop, str]:
    # first: the code may print too much and end before the order to kill it arrives
    if is_output_full:
        return ExecutionStop.OUTPUT, f"stopped: printed more than {limits.output_bytes} bytes"
    reasons = {
        Reason.TIMEOUT: (ExecutionStop.TIMEOUT, f"stopped: ran longer than {limits.wall_seconds:g} s"),
        Reason.MEMORY: (
            ExecutionStop.MEMORY,
            f"stopped: used more than {limits.memory_bytes >> 20} MiB of memory",
        ),
        Reason.ORDERED: (ExecutionStop.KILLED, "stopped: its result was too large"),
    }
    if report.reason in reasons:
        return reasons[report.reason]
    if report.signal == signal.SIGKILL and report.cpu_seconds >= _CPU_SHARE * limits.cpu_seconds:
        return ExecutionStop.CPU, f"stopped: used more than {limits.cpu_seconds} s of CPU"
    if report.signal:
        return ExecutionStop.KILLED, f"killed by {_signal_name(report.signal)}"
    return ExecutionStop.NONE, ""


def _signal_name(number: int) -> str:
    """Return a signal's name, or its number if Python has no name for it (real-time and glibc's own)."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _parse_outcome(data: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _text(value: object) -> str:
    """Return a string without lone surrogates, which cannot be encoded; empty if it is not a string."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _json_text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        parsed = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return None if is_deeper(parsed, MAX_DEPTH) else _text(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
