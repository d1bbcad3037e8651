"""Calls that are made while exploring: within a budget, one session at a time, with typed outcomes."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from turnwise.explore.first.answer_status import says_error, says_nothing
from turnwise.explore.first.document import Document, document_of
from turnwise.explore.survey.budget import Budget
from turnwise.explore.survey.rate_limits import asked_rest
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.types import Fault, Tool, ToolCall, ToolResult
from turnwise.types.protocols import Toolbox

EMPTY = "the answer is empty"


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one call: a document, or the error in words."""

    document: Document | None
    error: str = ""
    is_empty: bool = False
    """Whether the call succeeded with an answer that holds nothing."""
    seconds: float = 0.0


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
        result, seconds = await self._made(tool, arguments)
        while (rest := _rest_after(result)) is not None and budget.may_rest(rest):
            await asyncio.sleep(rest)
            result, seconds = await self._made(tool, arguments)
        if result.fault is Fault.INFRA:
            budget.num_faults += 1
            raise SessionLost(f"{tool.name}: {result.content[:200]}")
        if result.is_error or says_error(result.content):
            return Reply(None, result.content, seconds=seconds)
        document = document_of(result.content)
        has_content = document.fields or any(table.rows for table in document.tables)
        if not has_content or says_nothing(result.content, arguments):
            return Reply(None, EMPTY, is_empty=True, seconds=seconds)
        return Reply(document, seconds=seconds)

    async def _made(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[ToolResult, float]:
        budget = self._budget
        budget.num_calls += 1
        start = time.monotonic()
        [result] = await self._toolbox.call([ToolCall(f"call_{budget.num_calls}", tool.name, arguments)])
        seconds = time.monotonic() - start
        budget.seconds += seconds
        budget.num_bytes += len(result.content)
        return result, seconds


def _rest_after(result: ToolResult) -> float | None:
    """Return the rest that an error asks for, if it does."""
    is_error = result.is_error or says_error(result.content)
    return asked_rest(result.content) if is_error else None
