"""Calls that are made while exploring: within a budget, one session at a time, with typed outcomes."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from turnwise.explore.budget import Budget
from turnwise.explore.document import Document, document_of, says_error
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.protocols import Toolbox
from turnwise.types import Fault, Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one call: a document, or the error in words."""

    document: Document | None
    error: str = ""
    is_fault: bool = False
    """Whether the server failed, rather than the call."""


class SessionLost(Exception):
    """The server failed during a session: nothing more can be learned in it."""


class ServerCaller:
    """Makes calls to one server in fresh sessions, and counts them."""

    def __init__(self, pool: Pool, server: str, budget: Budget) -> None:
        self._pool = pool
        self.server = server
        self.budget = budget
        self._num_sessions = 0
        self._kept: AsyncExitStack | None = None
        self._session: Session | None = None

    async def kept_session(self) -> "Session":
        """Return a session that stays open until `end_session`; SessionLost if the server does not start."""
        if self._session is None:
            self._kept = AsyncExitStack()
            self._session = await self._kept.enter_async_context(self.session())
        return self._session

    async def end_session(self) -> None:
        """Close the kept session, if there is one."""
        kept, self._kept, self._session = self._kept, None, None
        if kept is not None:
            await kept.aclose()

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Session"]:
        """Open a session that no earlier call has influenced; SessionLost if the server does not start."""
        self._num_sessions += 1
        episode_id = f"explore/{self.server}/{self._num_sessions}"
        start = time.monotonic()
        try:
            async with self._pool.lease([self.server], episode_id) as toolbox:
                self.budget.seconds += time.monotonic() - start
                yield Session(toolbox, self.budget)
        except ConnectFailed as error:
            self.budget.why_stopped = str(error).partition("\n")[0]
            raise SessionLost(self.budget.why_stopped) from None


class Session:
    """One leased session of a server."""

    def __init__(self, toolbox: Toolbox, budget: Budget) -> None:
        self._toolbox = toolbox
        self._budget = budget

    @property
    def is_spent(self) -> bool:
        """Whether the server's budget is spent."""
        return self._budget.is_spent

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Reply:
        """Make one call. Raises SessionLost if the server fails, after counting it."""
        budget = self._budget
        budget.num_calls += 1
        start = time.monotonic()
        [result] = await self._toolbox.call([ToolCall(f"call_{budget.num_calls}", tool.name, arguments)])
        budget.seconds += time.monotonic() - start
        budget.num_bytes += len(result.content)
        if result.fault is Fault.INFRA:
            budget.num_faults += 1
            raise SessionLost(f"{tool.name}: {result.content[:200]}")
        if result.is_error:
            return Reply(None, result.content)
        if says_error(result.content):
            return Reply(None, result.content)
        document = document_of(result.content)
        if not document.fields and not any(table.rows for table in document.tables):
            return Reply(None, "the answer is empty")
        return Reply(document)
