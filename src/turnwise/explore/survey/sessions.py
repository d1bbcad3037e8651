"""Calls to one server: within a budget, in sessions that begin afresh."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnwise.explore.reading import read
from turnwise.explore.records import Answer, Call, Relation
from turnwise.explore.survey.budget import Budget
from turnwise.explore.survey.rate_limits import asked_rest
from turnwise.explore.survey.refusals import states_error
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.types import Fault, ToolCall, ToolResult
from turnwise.types.protocols import Toolbox


class SessionLost(Exception):
    """The server failed during a session: nothing more can be learned in it."""


class Sessions:
    """Opens sessions of one server, and counts their calls."""

    def __init__(self, pool: Pool, server: str, budget: Budget) -> None:
        self._pool = pool
        self.server = server
        self.budget = budget
        self.num_sessions = 0
        self._readings: dict[tuple[str, str], tuple[Relation, ...]] = {}

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator["Session"]:
        """Open a session that no earlier call has influenced; SessionLost if the server does not start."""
        self.num_sessions += 1
        episode_id = f"explore/{self.server}/{self.num_sessions}"
        start = time.monotonic()
        try:
            async with self._pool.lease([self.server], episode_id) as toolbox:
                self.budget.seconds += time.monotonic() - start
                yield Session(toolbox, self.budget, self._readings)
        except ConnectFailed as error:
            self.budget.why_stopped = str(error).partition("\n")[0]
            raise SessionLost(self.budget.why_stopped) from None


class Session:
    """One leased session of a server."""

    def __init__(
        self, toolbox: Toolbox, budget: Budget, readings: dict[tuple[str, str], tuple[Relation, ...]]
    ) -> None:
        self._toolbox = toolbox
        self.budget = budget
        self._read = readings
        self.seconds = 0.0
        """How long the last call took."""

    async def call(self, call: Call) -> Answer:
        """Make one call and read its answer. Raises SessionLost if the server fails."""
        result = await self._result(call)
        while (rest := _rest_after(result)) is not None and self.budget.may_rest(rest):
            await asyncio.sleep(rest)
            result = await self._result(call)
        if result.fault is Fault.INFRA:
            self.budget.num_faults += 1
            raise SessionLost(f"{call.tool}: {result.content[:200]}")
        text = result.content
        if result.is_error or states_error(text):
            return Answer(call, text, is_error=True)
        key = (call.key, text)
        if key not in self._read:
            self._read[key] = read(call, text)
        return Answer(call, text, is_error=False, relations=self._read[key])

    async def _result(self, call: Call) -> ToolResult:
        budget = self.budget
        budget.num_calls += 1
        start = time.monotonic()
        [result] = await self._toolbox.call([ToolCall(f"call_{budget.num_calls}", call.tool, call.arguments)])
        self.seconds = time.monotonic() - start
        budget.seconds += self.seconds
        budget.num_bytes += len(result.content)
        return result


def _rest_after(result: ToolResult) -> float | None:
    """Return the rest that an error asks for, if it does."""
    is_error = result.is_error or states_error(result.content)
    return asked_rest(result.content) if is_error else None
