"""Runs untrusted Python: code in, bounded output out, nothing else."""

from turnwise.system.sandbox.execution import (
    Execution,
    ExecutionStop,
    NoIsolation,
    SandboxDown,
    SandboxLimits,
)
from turnwise.system.sandbox.isolation import Kind, SandboxIsolation, isolation
from turnwise.system.sandbox.pool import Sandbox

__all__ = [
    "Execution",
    "ExecutionStop",
    "Kind",
    "NoIsolation",
    "Sandbox",
    "SandboxDown",
    "SandboxIsolation",
    "SandboxLimits",
    "isolation",
]
