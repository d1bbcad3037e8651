"""The counts of a collection, kept while its episodes play."""

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from turnwise.types import ServerLoss, Stop, Tool, ToolCall, ToolResult
from turnwise.types.protocols import Environment, Toolbox


@dataclass(slots=True)
class Progress:
    """The counts of a collection; always started = finished + lost + cancelled + in flight."""

    num_started: int = 0
    num_finished: int = 0
    num_in_flight: int = 0
    num_waiting_on_servers: int = 0
    """Episodes waiting for a lease."""
    num_waiting_on_tools: int = 0
    num_groups: int = 0
    num_groups_dropped: int = 0
    num_groups_unneeded: int = 0
    """Groups that were started ahead and cancelled or left out, because enough others are wanted."""
    num_tokens: int = 0
    num_calls: int = 0
    num_successes: int = 0
    num_inside_plans: int = 0
    """Finished episodes that started inside the task's plan: none of them is a success."""
    failures: Counter[Stop] = field(default_factory=Counter)
    """Episodes lost to infrastructure, by stop."""
    started_by_family: Counter[str] = field(default_factory=Counter)
    lost_by_family: Counter[str] = field(default_factory=Counter)
    last_failure: str = ""
    started_at: float = field(default_factory=time.perf_counter)

    @property
    def num_lost(self) -> int:
        return self.failures.total()

    @property
    def attempts(self) -> dict[str, tuple[int, int]]:
        """By family: how many episodes were started, and how many of them were lost."""
        return {
            family: (num_started, self.lost_by_family[family])
            for family, num_started in sorted(self.started_by_family.items())
        }

    @contextlib.asynccontextmanager
    async def leased(self, lease: AbstractAsyncContextManager[Toolbox]) -> AsyncIterator[Toolbox]:
        """Enter the lease, and count the episode as waiting on servers until then."""
        async with contextlib.AsyncExitStack() as exits:
            self.num_waiting_on_servers += 1
            try:
                toolbox = await exits.enter_async_context(lease)
            finally:
                self.num_waiting_on_servers -= 1
            yield toolbox


class CountingToolbox:
    """A toolbox that counts its calls, and the episodes that wait on them, in the progress."""

    def __init__(self, inner: Toolbox, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

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
        self._progress.num_waiting_on_tools += 1
        try:
            return await self._inner.call(calls, max_tokens=max_tokens)
        finally:
            self._progress.num_waiting_on_tools -= 1
            self._progress.num_calls += len(calls)
