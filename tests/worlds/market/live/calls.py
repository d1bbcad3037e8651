"""Calls the tools of a live backend as its server would, on a clock that only a sleep moves."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.system.net.retries import Clock
from turnwise.worlds.market.contract import service_of
from turnwise.worlds.market.live import live_backend
from turnwise.worlds.market.live.http import ProviderPatience
from turnwise.worlds.market.live.providers import ACCESS

KEY = "sk-TOPSECRET-0123456789"
PATIENCE = ProviderPatience()
START = datetime(2024, 11, 15, 15, 0, tzinfo=UTC)

DATA: dict[str, Any] = {
    server: json.loads((Path(__file__).parent / "data" / f"{server}.json").read_text()) for server in ACCESS
}
"""Per server: `replies` as the provider documents them, by path, and `cases` for `test_answers.py`."""

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


@dataclass
class JumpingClock:
    """Time passes only in a sleep, which returns at once."""

    slept: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        return Clock(monotonic=self._elapsed, now=self._now, sleep=self._sleep, jitter=lambda: 0.0)

    def _elapsed(self) -> float:
        return sum(self.slept)

    def _now(self) -> datetime:
        return START + timedelta(seconds=sum(self.slept))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def play_replies(provider: LoopbackProvider, server: str, case: dict[str, Any] | None = None) -> None:
    """Serve the documented replies of a server, except where a case has its own."""
    data, case = DATA[server], case or {}
    statuses = data.get("status", {}) | case.get("status", {})
    for path, body in (data["replies"] | case.get("replies", {})).items():
        provider.play(path, Answer(body, statuses.get(path, 200)))


def environ(server: str, base_url: str) -> dict[str, str]:
    return {ACCESS[server].key_variable: KEY, ACCESS[server].base_url_variable: base_url}


@contextlib.asynccontextmanager
async def open_tools(
    url: str, server: str, *, patience: ProviderPatience = PATIENCE, clock: JumpingClock | None = None
) -> AsyncIterator[Call]:
    """`call(tool, arguments)` of one live backend whose provider is at `url`."""
    time = (clock or JumpingClock()).clock()
    async with live_backend(server, environ(server, url), patience=patience, clock=time) as backend:
        handlers = {tool.name: tool.handler for tool in service_of(server, backend).tools}
        yield lambda tool, arguments: handlers[tool](arguments, "")


async def ask(
    url: str, server: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any
) -> Any:
    """Call one tool once."""
    async with open_tools(url, server, **options) as call:
        return await call(tool, arguments or {})
