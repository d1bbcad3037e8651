"""Serve a `Service` (named tools with handlers) over MCP, by stdio or streamable HTTP."""

import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import mcp_types as wire
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from turnwise.mcp.episode_meta import (
    BUG,
    CONCURRENCY,
    DROP_METHOD,
    EPISODE_KEY,
    EXTENSION,
    FAULT_KEY,
    INSTANCE_KEY,
    STATELESS,
    UPSTREAM,
)
from turnwise.version import __version__

logger = logging.getLogger(__name__)

JsonValue = Any
Handler = Callable[[Mapping[str, Any], str], Awaitable[JsonValue]]
"""`handler(arguments, episode_id)`: a string is sent unchanged, anything else as compact JSON."""


class ToolError(Exception):
    """The call itself was wrong (unknown ticker, bad date): the model sees the message and learns from it."""


class Unavailable(Exception):
    """The provider failed (401, 429, 5xx, time-out): an infrastructure fault, never the model's."""


@dataclass(frozen=True, slots=True)
class ServedTool:
    """One tool as clients see it, and the handler of its calls."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    handler: Handler
    is_read_only: bool
    is_idempotent: bool


@dataclass(frozen=True, slots=True)
class Service:
    """A server's tools; `drop(episode_id)` forgets one episode's state, None if the server keeps no state."""

    name: str
    tools: Sequence[ServedTool]
    drop: Callable[[str], Awaitable[None]] | None = None
    concurrency: int | None = None
    """Calls that it processes at once: clients queue the others. None: clients use their own limit."""
    lifetime: Callable[[], AbstractAsyncContextManager[None]] | None = None
    """Entered for as long as a connection inside this process lasts."""
    instructions: str | None = None
    """Description of the whole server, sent to clients when they connect."""
    is_alone: bool = False
    """Whether no episode uses it with another server, so that its tools keep their names in any company."""


TOKEN_VARIABLE = "TURNWISE_SERVE_TOKEN"  # noqa: S105 (its name, not its value)
"""Environment variable of the token that clients must send if other machines can reach the server."""

SILENT_SECONDS = 6 * 3600.0
"""An episode's state is dropped after this time without a call: far longer than any episode lasts."""


class _DropParams(wire.RequestParams):
    episode: str


class _Known:
    """The episodes that a server keeps state of: a worker that dies never drops its own."""

    def __init__(
        self, drop: Callable[[str], Awaitable[None]] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._drop = drop
        self._clock = clock
        self._heard_at: OrderedDict[str, float] = OrderedDict()

    async def heard_of(self, episode: str) -> None:
        """Record a call of the episode, and drop the episodes without a call for SILENT_SECONDS."""
        if self._drop is None or not episode:
            return
        now = self._clock()
        self._heard_at[episode] = now
        self._heard_at.move_to_end(episode)
        while self._heard_at[first := next(iter(self._heard_at))] < now - SILENT_SECONDS:
            del self._heard_at[first]
            logger.warning("episode %r: nothing was heard of it for long, so it is dropped", first)
            await self._drop(first)

    def gone(self, episode: str) -> None:
        self._heard_at.pop(episode, None)


def build(service: Service, *, instance: str = "") -> Server[Any]:
    """Return the SDK server of a service, for both protocol eras.

    `instance`, if given, is sent with every result of a service that keeps state.
    """
    by_name = {tool.name: tool for tool in service.tools}
    known = _Known(service.drop)
    listing = [_describe(tool) for tool in service.tools]
    stamp = {INSTANCE_KEY: instance} if instance and service.drop is not None else {}

    async def list_tools(
        ctx: ServerRequestContext[Any], params: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=listing)

    async def call_tool(
        ctx: ServerRequestContext[Any], params: wire.CallToolRequestParams
    ) -> wire.CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            return _answer(f"unknown tool {params.name!r}", stamp, is_error=True)
        episode = str((ctx.meta or {}).get(EPISODE_KEY, ""))
        await known.heard_of(episode)
        try:
            value = await tool.handler(params.arguments or {}, episode)
            text = value if isinstance(value, str) else _compact(value)
        except ToolError as error:
            return _answer(str(error), stamp, is_error=True)
        except Unavailable as error:
            return _answer(str(error), {**stamp, FAULT_KEY: UPSTREAM}, is_error=True)
        except Exception as error:
            # A bug of ours is not the model's fault, unless the model meets it again and again.
            logger.exception("%s failed", params.name)
            text = f"{type(error).__name__} in {params.name}"
            return _answer(text, {**stamp, FAULT_KEY: BUG}, is_error=True)
        return _answer(text, stamp)

    server = Server[Any](
        service.name,
        version=__version__,
        instructions=service.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    queueing = {} if service.concurrency is None else {CONCURRENCY: service.concurrency}
    if service.drop is None:
        server.extensions[EXTENSION] = {**STATELESS, **queueing}
    else:
        drop = service.drop

        async def forget(ctx: ServerRequestContext[Any], params: _DropParams) -> wire.EmptyResult:
            await drop(params.episode)
            known.gone(params.episode)
            return wire.EmptyResult()

        server.extensions[EXTENSION] = queueing
        server.add_request_handler(DROP_METHOD, _DropParams, forget)
    return server


async def serve_stdio(service: Service) -> None:
    """Serve until stdin closes."""
    server = build(service)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def serve_http(service: Service, *, host: str, port: int, token: str = "") -> None:
    """Serve streamable HTTP at /mcp until interrupted; prints the address, since port 0 picks a free one.

    Raises ValueError if other machines can reach it and there is no token. Clients send the token as
    `Authorization: Bearer TOKEN`.
    """
    import uvicorn

    from turnwise.system.net.addresses import url_of
    from turnwise.system.net.admission import Admission
    from turnwise.system.net.http_serving import bound_socket, server_config

    admission = Admission(host, token)
    # without sessions only the instance tells a client that this server was restarted
    server = build(service, instance=secrets.token_hex(8))
    app = server.streamable_http_app(host=host, stateless_http=True, json_response=True)
    with bound_socket(host, port) as listener:
        listener.listen()  # a client may connect as soon as it has read the address
        print(f"{service.name} at {url_of(host, listener.getsockname()[1])}/mcp", flush=True)
        await uvicorn.Server(server_config(admission.over(app))).serve(sockets=[listener])


def _describe(tool: ServedTool) -> wire.Tool:
    return wire.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        annotations=wire.ToolAnnotations(
            read_only_hint=tool.is_read_only, idempotent_hint=tool.is_idempotent, destructive_hint=False
        ),
    )


def _answer(text: str, meta: dict[str, str], *, is_error: bool = False) -> wire.CallToolResult:
    # Lone surrogates cannot be encoded: they would crash the SDK's writer, and the server with it.
    text = text.encode("utf-8", "replace").decode()
    return wire.CallToolResult(
        content=[wire.TextContent(type="text", text=text)], is_error=is_error, _meta=meta or None
    )


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
