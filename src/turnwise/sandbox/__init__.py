"""Runs untrusted Python: code in, bounded output out, nothing else."""

from turnwise.sandbox.execution import Execution, Limits, NoIsolation, SandboxDown, Stop
from turnwise.sandbox.isolation import Isolation, Kind, isolation
from turnwise.sandbox.pool import Sandbox

__all__ = [
    "Execution",
    "Isolation",
    "Kind",
    "Limits",
    "NoIsolation",
    "Sandbox",
    "SandboxDown",
    "Stop",
    "isolation",
]
