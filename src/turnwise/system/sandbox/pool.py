"""The sandbox: a warm worker, others once it is busy, every execution in a clean process."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from turnwise.system.sandbox.execution import Execution, NoIsolation, SandboxDown, SandboxLimits
from turnwise.system.sandbox.isolation import Kind, SandboxIsolation, isolation
from turnwise.system.sandbox.layout import PACKAGES
from turnwise.system.sandbox.worker import Worker


class Sandbox:
    """`async with Sandbox() as sandbox: await sandbox.run(code, {"data": …})`."""

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        num_workers: int = 2,
        walls: SandboxIsolation | None = None,
        packages: Sequence[str] = PACKAGES,
    ) -> None:
        """walls: default is the strongest isolation that works; packages: importable besides the stdlib."""
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, not {num_workers}")
        self._limits = limits or SandboxLimits()
        self._num_workers = num_workers
        self._walls = walls
        self._packages = packages
        self._kind = Kind.NONE
        self._places = asyncio.Semaphore(num_workers)
        self._idle: list[Worker] = []
        """The last one used is the next one used. A place without a worker gets one when it is needed."""

    @property
    def num_workers(self) -> int:
        """How many executions run at once; further ones wait."""
        return self._num_workers

    async def __aenter__(self) -> Self:
        walls = await asyncio.to_thread(isolation) if self._walls is None else self._walls
        if walls.kind is Kind.NONE:
            raise NoIsolation(f"Python code cannot be run safely here: {walls.detail}")
        self._kind = walls.kind
        # Others start when all are busy: each imports numpy and pandas, and most servers need only one.
        self._idle.append(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(worker.close() for worker in self._idle))
        self._idle.clear()

    async def run(
        self, code: str, variables: Mapping[str, Any] | None = None, *, result_names: Sequence[str] = ()
    ) -> Execution:
        """Run code that sees `variables` (JSON values). Raises SandboxDown if the sandbox itself failed.

        If the last expression has no value, the value is that of the first of `result_names` that is set.
        """
        return await self._run([code], variables or {}, result_names)

    async def run_steps(self, steps: Sequence[str], variables: Mapping[str, Any] | None = None) -> Execution:
        """Run several steps in one execution; `data` is the previous one's last expression, or `result`."""
        return await self._run(steps, variables or {}, ("result", "data"))

    async def _run(
        self, sources: Sequence[str], variables: Mapping[str, Any], result_names: Sequence[str]
    ) -> Execution:
        async with self._places:
            worker = self._idle.pop() if self._idle else None
            try:
                if worker is None or not worker.is_alive:
                    worker = self._replace(worker)
                return await worker.run(sources, variables, result_names)
            except BaseException:
                # a cancelled or failed worker may still run the code: kill it and start a new one
                worker = self._try_replace(worker)
                raise
            finally:
                if worker is not None:
                    self._idle.append(worker)

    def _replace(self, lost: Worker | None) -> Worker:
        if lost is not None:
            lost.kill()
        return self._start()

    def _try_replace(self, lost: Worker | None) -> Worker | None:
        try:
            return self._replace(lost)
        except SandboxDown:
            return None

    def _start(self) -> Worker:
        return Worker(self._kind, self._limits, self._packages)
