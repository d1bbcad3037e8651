"""Takes a tool call, gives what the live backend answers through the tool contract, on a clock that jumps."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.servers.provider import LoopbackProvider
from turnwise.mcp.serve import Handler, ToolError, Unavailable
from turnwise.runtime.retries import Clock
from turnwise.servers.contract import service_of
from turnwise.servers.live import live_backend
from turnwise.servers.live.http import ProviderPatience

KEY = "sk-TOPSECRET-0123456789"
KEYS = {
    "fmp": "FMP_API_KEY",
    "polygon": "POLYGON_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "slack": "SLACK_BOT_TOKEN",
}
PATIENCE = ProviderPatience()
START = datetime(2024, 11, 15, 15, 0, tzinfo=UTC)


@dataclass
class JumpingClock:
    """Time that passes only when someone sleeps, so that a test waits for nothing."""

    slept: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(monotonic=self._elapsed, now=self._now, sleep=self._sleep, jitter=lambda: 0.0)

    def _elapsed(self) -> float:
        return sum(self.slept)

    def _now(self) -> datetime:
        return START + timedelta(seconds=sum(self.slept))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def environ(name: str, base_url: str) -> dict[str, str]:
    return {KEYS[name]: KEY, f"{name.upper()}_BASE_URL": base_url}


def ask(
    provider: LoopbackProvider,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    patience: ProviderPatience = PATIENCE,
    clock: JumpingClock | None = None,
) -> Any:
    """Call one tool as the server would."""
    return ask_all(provider, [(tool, arguments or {})], patience=patience, clock=clock)[0]


def ask_all(
    provider: LoopbackProvider,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    patience: ProviderPatience = PATIENCE,
    clock: JumpingClock | None = None,
) -> list[Any]:
    """Call tools one after the other on one backend."""

    async def run() -> list[Any]:
        async with handlers_of(provider, calls[0][0], patience, clock or JumpingClock()) as handlers:
            return [await handlers[tool](arguments, "") for tool, arguments in calls]

    return asyncio.run(run())


def refusals(provider: LoopbackProvider, calls: list[tuple[str, dict[str, Any]]]) -> list[Exception | None]:
    """What each call raises; None for one that does not."""

    async def refusal(handler: Handler, arguments: dict[str, Any]) -> Exception | None:
        try:
            await handler(arguments, "")
        except (ToolError, Unavailable) as error:
            return error
        return None

    async def run() -> list[Exception | None]:
        async with handlers_of(provider, calls[0][0], PATIENCE, JumpingClock()) as handlers:
            return [await refusal(handlers[tool], arguments) for tool, arguments in calls]

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def handlers_of(
    provider: LoopbackProvider, tool: str, patience: ProviderPatience, clock: JumpingClock
) -> AsyncIterator[dict[str, Handler]]:
    """The handlers of the server that the tool belongs to, by tool."""
    name = "slack" if "slack" in tool else tool.split("_", maxsplit=1)[0]
    variables = environ(name, provider.url)
    async with live_backend(name, variables, patience=patience, clock=clock.clock()) as backend:
        yield {tool.name: tool.handler for tool in service_of(name, backend).tools}
