"""Runs untrusted Python: code in, bounded output out, nothing else."""

from turnwise.sandbox.execution import Execution, ExecutionStop, NoIsolation, SandboxDown, SandboxLimits
from turnwise.sandbox.isolation import Kind, SandboxIsolation, isolation
from turnwise.sandbox.pool import Sandbox

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
