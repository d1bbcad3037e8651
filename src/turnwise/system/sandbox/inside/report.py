"""The record of how an execution ended, which the zygote fills and sends without reading it.

The next execution's process is forked from the zygote and can search the zygote's memory. So the
outcome of the last one never becomes a Python object there: the kernel writes the wait status into a buffer,
which is sent to the host and cleared.
"""

import ctypes
import os
import socket
from dataclasses import dataclass
from enum import IntEnum

from .kernel import wait4


class Reason(IntEnum):
    """Why the zygote ended an execution."""

    NONE = 0
    """The zygote did not end it: the code ended by itself, or a signal ended it."""
    TIMEOUT = 1
    MEMORY = 2
    ORDERED = 3
    """The host ordered it, because the code wrote too much."""


class _Record(ctypes.Structure):
    _fields_ = [
        ("reason", ctypes.c_int),
        ("status", ctypes.c_int),
        ("usage", ctypes.c_long * 18),  # struct rusage: user and system time as (seconds, microseconds), …
    ]


@dataclass(frozen=True, slots=True)
class Report:
    """How an execution ended, as the host reads it."""

    reason: Reason
    exit_code: int
    signal: int
    """0 if no signal ended it."""
    cpu_seconds: float
    """CPU time of the first process and of the children that it waited for."""


class ReportBuffer:
    """The zygote's only record, reused for every execution."""

    def __init__(self) -> None:
        self._record = _Record()

    def reap(self, pid: int) -> None:
        """Wait until the process has ended; the kernel writes how into the record."""
        status, usage = _Record.status.offset, _Record.usage.offset
        address = ctypes.addressof(self._record)
        wait4(pid, address + status, address + usage)

    def send(self, control: socket.socket, reason: Reason) -> None:
        """Send the record to the host and clear it."""
        self._record.reason = reason
        control.send(self._record)
        ctypes.memset(ctypes.addressof(self._record), 0, ctypes.sizeof(self._record))


def read_report(message: bytes) -> Report:
    """Decode what `ReportBuffer.send` sent."""
    record = _Record.from_buffer_copy(message)
    user_seconds, user_micros, system_seconds, system_micros = record.usage[:4]
    killed = os.WIFSIGNALED(record.status)
    return Report(
        reason=Reason(record.reason),
        exit_code=0 if killed else os.WEXITSTATUS(record.status),
        signal=os.WTERMSIG(record.status) if killed else 0,
        cpu_seconds=user_seconds + system_seconds + 1e-6 * (user_micros + system_micros),
    )
