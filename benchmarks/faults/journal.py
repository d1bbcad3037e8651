"""The harness's own record of every attempt at an episode and every call.

It is written at once, because records in memory would hide a leak.
"""

import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from turnwise.rollout.collector import Lease
from turnwise.types import ServerLoss, Task, Tool, ToolCall, ToolResult
from turnwise.types.protocols import Environment, Toolbox


class Journal:
    """Appends one line per attempt, call and sample of the process."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "journal.jsonl").open("a", buffering=1)

    def line(self, kind: str, **facts: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **facts}) + "\n")

    def around(self, lease: Lease) -> Lease:
        """Lease a toolbox and record the attempt and every call."""

        @contextlib.asynccontextmanager
        async def journalled(task: Task, episode_id: str) -> AsyncIterator[Toolbox]:
            self.line("attempt", episode=episode_id, task=task.id)
            async with lease(task, episode_id) as toolbox:
                yield _Journalled(toolbox, episode_id, self)

        return journalled

    def close(self) -> None:
        self._file.close()


class _Journalled:
    """A toolbox that records its calls."""

    def __init__(self, inner: Toolbox, episode_id: str, journal: Journal) -> None:
        self._inner = inner
        self._episode_id = episode_id
        self._journal = journal

    @property
    def environment(self) -> Environment:
        return self._inner.environment

    @property
    def tools(self) -> Sequence[Tool]:
        return self._inner.tools

    @property
    def losses(self) -> Sequence[ServerLoss]:
        return self._inner.losses

    @property
    def busy_seconds(self) -> float:
        return self._inner.busy_seconds

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        started = time.monotonic()
        results = await self._inner.call(calls, max_tokens=max_tokens)
        for call, result in zip(calls, results, strict=True):
            self._journal.line(
                "call",
                episode=self._episode_id,
                tool=call.name,
                arguments=call.arguments,
                started=started,
                ended=time.monotonic(),
                cause=result.cause,
                fault=result.fault,
                num_retries=result.num_retries,
            )
        return results
