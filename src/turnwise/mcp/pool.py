"""The pool of warm server connections: `async with pool.lease(servers, episode_id) as toolbox`."""

import asyncio
import contextlib
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import mcp_types as wire

from turnwise.mcp.calls.arguments import ArgumentChecker
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.calls.gate import Breaker
from turnwise.mcp.calls.results import DEFAULT_MAX_TOKENS, Sanitiser, TokenCounter, estimate_tokens
from turnwise.mcp.offerings import Offerings
from turnwise.mcp.processes.disk_quota import watch
from turnwise.mcp.processes.exposure import Exposure, exposure
from turnwise.mcp.processes.scratch import Scratch
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import Isolation, ServerSpec
from turnwise.mcp.stock import ProcessSet, Stock, grouped
from turnwise.mcp.supply import Holding, Supply
from turnwise.mcp.toolbox import LeasedToolbox, Readability
from turnwise.system.environment import known_secrets
from turnwise.system.redaction import Redaction
from turnwise.types import ServerLoss, Tool

logger = logging.getLogger(__name__)


class Pool:
    """Warm connections to many servers, leased to one episode at a time.

    async with Pool(load(Path("mcp.json"))) as pool:
        async with pool.lease(["fmp", "slack"], "episode-1") as toolbox:
            [result] = await toolbox.call([ToolCall("1", "fmp_get_quote", {"symbol": "ACME"})])
    """

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        *,
        cassette: Cassette | None = None,
        max_result_tokens: int = DEFAULT_MAX_TOKENS,
        count_tokens: TokenCounter = estimate_tokens,
        special_tokens: Sequence[str] = (),
        max_spawns: int | None = None,
        is_mending: bool = True,
    ) -> None:
        """is_mending: repair argument names that can only mean one parameter."""
        self._specs = {spec.name: spec for spec in specs}
        self._cassette = cassette
        self._is_mending = is_mending
        # ours too: a tool may read the user's `.env`, or be given a key through a file
        secrets = known_secrets().difference(*(spec.public for spec in specs))
        redaction = Redaction(secrets.union(*(spec.secrets for spec in specs)))
        self._sanitiser = Sanitiser(tuple(special_tokens), redaction)
        self._readability = Readability(self._sanitiser, max_result_tokens, count_tokens)
        # Starting a server is CPU-bound; two more than there are cores keep them busy during disk reads.
        self._max_spawns = max_spawns or (os.cpu_count() or 1) + 2
        self._stocks: list[Stock] = []
        self._supplies: dict[str, Supply] = {}
        self._listed: dict[str, tuple[Tool, ...]] = {}
        self._checkers: dict[str, dict[str, ArgumentChecker]] = {}
        """By server and tool."""
        self._leased: set[str] = set()
        self._tasks = asyncio.TaskGroup()
        self._scratch: Scratch | None = None
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        if self._cassette is not None and self._cassette.mode is Mode.REPLAY:
            self._list(self._cassette.tools)
            return self
        self._scratch = Scratch()
        spawn_slots = asyncio.Semaphore(self._max_spawns)
        for group in grouped(tuple(self._specs.values())):
            stock = Stock(group[0].name, group, tasks=self._tasks, scratch=self._scratch)
            self._stocks.append(stock)
            for spec in group:
                self._supplies[spec.name] = Supply(
                    spec,
                    stock=stock,
                    tasks=self._tasks,
                    scratch=self._scratch,
                    spawn_slots=spawn_slots,
                    clean=self._sanitiser.clean,
                )
        self._supplies = {name: self._supplies[name] for name in self._specs}
        self._watching = self._tasks.create_task(watch(self._scratch.root, self._stocks), name="mcp disk")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await asyncio.gather(
                *(stock.close() for stock in self._stocks),
                *(supply.close() for supply in self._supplies.values()),
            )
            if self._watching is not None:
                self._watching.cancel()
            # Without the caller's exception: the task group would raise it again, wrapped in a group.
            await self._tasks.__aexit__(None, None, None)
        finally:
            if self._scratch is not None:
                self._scratch.close()

    async def connect(self, servers: Sequence[str] | None = None) -> Mapping[str, ConnectFailed]:
        """Start servers (all by default) in parallel and list their tools; return those that failed."""
        names = [name for name in servers or self._supplies if name not in self._listed]
        outcomes = await asyncio.gather(*(self._connect(name) for name in names))
        listed = {
            name: tools for name, tools in zip(names, outcomes, strict=True) if isinstance(tools, tuple)
        }
        self._list({**self._listed, **listed})
        for name, tools in listed.items():
            logger.debug("server %s: connected, %d tools", name, len(tools))
        return {
            name: outcome
            for name, outcome in zip(names, outcomes, strict=True)
            if isinstance(outcome, ConnectFailed)
        }

    @property
    def tools(self) -> Sequence[Tool]:
        """Every tool of every connected server, under the names that leases use."""
        return tuple(tool for tools in self._listed.values() for tool in tools)

    async def offerings(self, server: str) -> Offerings:
        """Read the resources and prompts of a connected server; none if it is gone."""
        try:
            session = await self._supplies[server].connect()
        except ConnectFailed:
            return Offerings()
        return await session.offerings()

    def isolation(self, server: str) -> Isolation:
        """Return the isolation of a connected server, with `auto` resolved."""
        return self._supplies[server].isolation

    def is_connected(self, server: str) -> bool:
        """Return whether the server was started or reached; False if its calls are replayed."""
        return server in self._listed and server in self._supplies

    def exposure(self, server: str) -> Exposure:
        """Return what an episode could change through a connected server."""
        supply = self._supplies[server]
        stock = supply.stock
        return exposure(
            supply.spec,
            [tool.name for tool in self._listed[server] if not tool.is_read_only],
            is_own=supply.keeps_episodes_apart,
            private=stock.private_folders(supply.spec),
            not_private=stock.not_private,
            is_enclosed=stock.encloses(supply.spec),
            network=stock.network,
        )

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """The breaker of each server, for monitoring; empty if calls are replayed."""
        return {name: supply.gate.breaker for name, supply in self._supplies.items()}

    @property
    def max_leases(self) -> int | None:
        """How many episodes can hold every connected server at once; others wait. None: no limit."""
        limits = [
            supply.spec.options.max_processes
            for supply in self._supplies.values()
            if supply.isolation is Isolation.PROCESS
        ]
        return min(limits, default=None)

    @contextlib.asynccontextmanager
    async def lease(
        self,
        servers: Sequence[str],
        episode_id: str,
        *,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] = (),
    ) -> AsyncIterator[LeasedToolbox]:
        """Lease these servers to one episode; the state it leaves behind is removed when the lease ends.

        `allow` and `deny` are shell patterns for tool names, in addition to those of `mcp.json`. Raises
        ConnectFailed if a server cannot be started or reached.
        """
        await self._require(servers)
        if episode_id in self._leased:
            raise ValueError(f"episode id {episode_id!r} already has a lease: two would share their state")
        self._leased.add(episode_id)
        # a server may be shared with other workers, whose episodes have the same ids
        key = f"{episode_id}/{secrets.token_hex(8)}"
        losses: list[ServerLoss] = []
        holdings: dict[str, Holding] = {}
        sets: dict[Stock, ProcessSet] = {}
        try:
            # All leases take servers in the same order: two can never wait for each other's process.
            supplies = [self._supplies[server] for server in set(servers) & set(self._supplies)]
            for supply in sorted(supplies, key=lambda supply: (supply.stock.name, supply.spec.name)):
                holdings[supply.spec.name] = await supply.acquire(key, losses, sets)
            tools = [
                tool
                for server in dict.fromkeys(servers)
                for tool in self._listed[server]
                if is_offered(tool, allow, deny)
            ]
            checkers = {name: one for server in servers for name, one in self._checkers[server].items()}
            yield LeasedToolbox(
                episode_id, tools, checkers, holdings, self._readability, self._cassette, losses
            )
        finally:
            self._leased.discard(episode_id)
            for (
                stock,
                process_set,
            ) in sets.items():  # first: if the episode is cancelled, the await below is interrupted
                stock.recycle(process_set)
            await self._release(holdings.values())

    async def _release(self, holdings: Iterable[Holding]) -> None:
        releases = [holding.supply.release(holding) for holding in holdings]
        if releases:
            # In a task of the pool, so that the state of a cancelled episode is still dropped.
            await asyncio.shield(self._tasks.create_task(_all(releases)))

    def _is_alone(self, server: str) -> bool:
        service = self._specs[server].service if server in self._specs else None
        return service is not None and service.is_alone

    async def _require(self, servers: Sequence[str]) -> None:
        unknown = sorted(set(servers) - set(self._supplies) - set(self._listed))
        if unknown:
            known = ", ".join(sorted({*self._supplies, *self._listed}))
            raise ValueError(f"servers: unknown {unknown[0]!r}; mcp.json has {known}")
        if len(set(servers)) > 1 and (alone := [name for name in servers if self._is_alone(name)]):
            raise ValueError(f"servers: {alone[0]!r} cannot be combined with others: name it alone in a task")
        missing = [server for server in servers if server not in self._listed]
        if missing:
            failures = await self.connect(missing)
            for failure in failures.values():
                raise failure

    async def _connect(self, name: str) -> tuple[Tool, ...] | ConnectFailed:
        try:
            session = await self._supplies[name].connect()
        except ConnectFailed as error:
            return error
        options = self._specs[name].options
        tools = tuple(_tool_of(name, tool, self._sanitiser) for tool in session.introduction.tools)
        return tuple(tool for tool in tools if is_offered(tool, options.allow, options.deny))

    def _list(self, listed: Mapping[str, Sequence[Tool]]) -> None:
        """Name the tools of all servers together, so that a tool's name never depends on the task."""
        shared = {server: tools for server, tools in listed.items() if not self._is_alone(server)}
        named = namespaced(shared)
        self._listed = {server: named.get(server, tuple(tools)) for server, tools in listed.items()}
        self._checkers = {
            server: {
                tool.name: ArgumentChecker(
                    tool.name, tool.input_schema, is_mending=self._is_mending, may_guess=tool.is_read_only
                )
                for tool in tools
            }
            for server, tools in self._listed.items()
        }
        if self._cassette is not None and self._cassette.mode is not Mode.REPLAY:
            for server, tools in self._listed.items():
                self._cassette.record_tools(server, tools)


def namespaced(listed: Mapping[str, Sequence[Tool]]) -> dict[str, tuple[Tool, ...]]:
    """Return the tools under their plain names, or as `server__tool` if several servers have the name."""
    counts = Counter(tool.server_tool for tools in listed.values() for tool in tools)
    named = {
        server: tuple(
            replace(tool, name=tool.qualified_name if counts[tool.server_tool] > 1 else tool.server_tool)
            for tool in tools
        )
        for server, tools in listed.items()
    }
    names = Counter(tool.name for tools in named.values() for tool in tools)
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"two tools end up as {name!r}: rename a server in mcp.json or deny one of them")
    return named


def _tool_of(server: str, tool: wire.Tool, sanitiser: Sanitiser) -> Tool:
    """Convert a server's tool, sanitised: its prose cannot imitate chat structure or leak a secret."""
    hints = tool.annotations
    return Tool(
        name=tool.name,
        description=sanitiser.clean(tool.description or ""),
        input_schema=_clean_schema(tool.input_schema, sanitiser),
        server=server,
        server_tool=tool.name,
        is_read_only=hints is not None and hints.read_only_hint is True,
        is_idempotent=hints is not None and hints.idempotent_hint is True,
    )


def _clean_schema(schema: Any, sanitiser: Sanitiser, key: str = "") -> Any:
    """Sanitise titles and descriptions at any depth; only redact what validates (enums, defaults)."""
    if isinstance(schema, list):
        return [_clean_schema(item, sanitiser) for item in schema]
    if isinstance(schema, dict):
        return {name: _clean_schema(value, sanitiser, name) for name, value in schema.items()}
    if not isinstance(schema, str):
        return schema
    return sanitiser.clean(schema) if key in ("title", "description") else sanitiser.redaction.redact(schema)


def is_offered(tool: Tool, allow: Sequence[str] | None, deny: Sequence[str] = ()) -> bool:
    """Return whether the shell patterns allow a tool, under any of its names; deny wins."""
    return tool.is_named_by(allow) and not tool.is_named_by(deny)


async def _all(awaitables: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*awaitables)
