"""The sandbox: a few warm workers, every execution in a clean process."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from turnwise.sandbox.execution import Execution, NoIsolation, SandboxDown, SandboxLimits
from turnwise.sandbox.isolation import Kind, SandboxIsolation, isolation
from turnwise.sandbox.layout import PACKAGES
from turnwise.sandbox.worker import Worker


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
        self._idle: asyncio.Queue[Worker | None] = asyncio.Queue()
        """None stands for a lost worker that could not be replaced yet."""

    @property
    def num_workers(self) -> int:
        """How many executions run at once; further ones wait."""
        return self._num_workers

    async def __aenter__(self) -> Self:
        walls = await asyncio.to_thread(isolation) if self._walls is None else self._walls
        if walls.kind is Kind.NONE:
            raise NoIsolation(f"Python code cannot be run safely here: {walls.detail}")
        self._kind = walls.kind
        for _ in range(self._num_workers):
            self._idle.put_nowait(Worker(self._kind, self._limits, self._packages))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers = [self._idle.get_nowait() for _ in range(self._idle.qsize())]
        await asyncio.gather(*(worker.close() for worker in workers if worker is not None))

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
        worker = await self._idle.get()
        try:
            if worker is None or not worker.is_alive:
                worker = self._replace(worker)
            return await worker.run(sources, variables, result_names)
        except BaseException:
            # a cancelled or failed worker may still run the code: kill it and start a new one
            worker = self._try_replace(worker)
            raise
        finally:
            self._idle.put_nowait(worker)

    def _replace(self, lost: Worker | None) -> Worker:
        if lost is not None:
            lost.kill()
        return Worker(self._kind, self._limits, self._packages)

    def _try_replace(self, lost: Worker | None) -> Worker | None:
        try:
            return self._replace(lost)
        except SandboxDown:
            return None
