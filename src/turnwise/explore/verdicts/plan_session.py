"""Sessions that several plans share, so that servers are started rarely."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

from turnwise.mcp.pool import Pool
from turnwise.types import ServerLoss, Tool, ToolCall, ToolResult
from turnwise.types.protocols import TASK_ONLY, Toolbox

_MAX_FAILURES = 3
"""Failures of a server after which it is not started again."""


class PlanSession:
    """One session of every server that the plans use, opened when it is needed."""

    def __init__(self, pool: Pool, episode_id: str) -> None:
        self._pool = pool
        self._episode_id = episode_id
        self._leases: dict[str, AsyncExitStack] = {}
        self._toolboxes: dict[str, Toolbox] = {}
        self._num_failures: Counter[str] = Counter()

    async def toolbox(self, servers: Sequence[str]) -> Toolbox:
        """Return the tools of these servers. Raises ConnectFailed."""
        for server in servers:
            if server not in self._toolboxes:
                lease = AsyncExitStack()
                episode_id = f"{self._episode_id}/{server}/{self._num_failures[server]}"
                toolbox = await lease.enter_async_context(self._pool.lease([server], episode_id))
                self._leases[server], self._toolboxes[server] = lease, toolbox
        return _JointToolbox([self._toolboxes[server] for server in servers])

    def has_failed(self, servers: Sequence[str]) -> bool:
        """Return whether one of the servers failed too often."""
        return any(self._num_failures[server] >= _MAX_FAILURES for server in servers)

    async def drop(self, servers: Sequence[str]) -> None:
        """Close the sessions of servers after one of them failed; the next plan gets new ones."""
        for server in servers:
            self._num_failures[server] += 1
            self._toolboxes.pop(server, None)
            if lease := self._leases.pop(server, None):
                await lease.aclose()

    async def close(self) -> None:
        """Close all sessions."""
        for server in list(self._leases):
            self._toolboxes.pop(server)
            await self._leases.pop(server).aclose()


class _JointToolbox:
    """The tools of several sessions; every call goes to the session of its tool."""

    environment = TASK_ONLY

    def __init__(self, toolboxes: Sequence[Toolbox]) -> None:
        self._toolboxes = toolboxes
        self._place = {tool.name: place for place, one in enumerate(toolboxes) for tool in one.tools}

    @property
    def tools(self) -> Sequence[Tool]:
        return [tool for toolbox in self._toolboxes for tool in toolbox.tools]

    @property
    def losses(self) -> Sequence[ServerLoss]:
        return [loss for toolbox in self._toolboxes for loss in toolbox.losses]

    @property
    def busy_seconds(self) -> float:
        return sum(toolbox.busy_seconds for toolbox in self._toolboxes)

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        results: dict[int, ToolResult] = {}
        for place, toolbox in enumerate(self._toolboxes):
            mine = [number for number, call in enumerate(calls) if self._place.get(call.name, 0) == place]
            if mine:
                answers = await toolbox.call([calls[number] for number in mine], max_tokens=max_tokens)
                results.update(zip(mine, answers, strict=True))
        return [results[number] for number in range(len(calls))]
