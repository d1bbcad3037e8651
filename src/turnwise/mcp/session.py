"""One live connection to a server: its tools, and calls that fail in typed ways."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import mcp_types as wire
from mcp import Client, MCPError
from mcp.client._transport import Transport
from mcp.server.lowlevel import Server
from pydantic import ValidationError

from turnwise.mcp.calls.results import render
from turnwise.mcp.episode_meta import (
    BUG,
    DROP_METHOD,
    EPISODE_KEY,
    FAULT_KEY,
    INSTANCE_KEY,
    UPSTREAM,
)
from turnwise.mcp.introduction import Introduction, introduce
from turnwise.mcp.offerings import Offerings, read_offerings
from turnwise.mcp.processes.launch import TOO_LARGE_CODE, UNREADABLE_CODE, Command, Vitals, stdio_transport
from turnwise.mcp.processes.named_data import named_data
from turnwise.mcp.processes.surroundings import installer
from turnwise.mcp.processes.walls import Namespace
from turnwise.mcp.remote import (
    BUSY_CODE,
    EXPIRED_CODE,
    HTTP_CODE,
    NOT_SENT_CODE,
    TURNED_AWAY_CODE,
    http_transport,
)
from turnwise.mcp.serve import build
from turnwise.mcp.spec import EPISODE_DIR, Data, ServerSpec
from turnwise.system.busy_clock import BusyClock
from turnwise.types import Cause, ServerLoss
from turnwise.version import __version__

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 3.0
_LAST_WORDS_SECONDS = 3.0
_CLIENT_INFO = wire.Implementation(name="turnwise", version=__version__)

_CAUSES = {
    TOO_LARGE_CODE: Cause.TOO_LARGE,
    UNREADABLE_CODE: Cause.BAD_REPLY,
    NOT_SENT_CODE: Cause.CLOSED,
    HTTP_CODE: Cause.CLOSED,
    EXPIRED_CODE: Cause.CLOSED,
    TURNED_AWAY_CODE: Cause.CLOSED,
    BUSY_CODE: Cause.CLOSED,
    wire.PARSE_ERROR: Cause.BAD_REPLY,
}


NO_NETWORK = 'has no network, which "turnwise": {"network": true} in its entry opens'


class CallFailed(Exception):
    """A call without a result; `cause` is the reason, `was_sent` whether the server may have acted on it.

    `rest_seconds` is how long the server wants no calls; None if it did not ask for a rest. `is_alive`:
    whether it answered another request right after this one had timed out.
    """

    def __init__(
        self,
        cause: Cause,
        message: str,
        *,
        was_sent: bool = True,
        rest_seconds: float | None = None,
        is_alive: bool = False,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.was_sent = was_sent
        self.rest_seconds = rest_seconds
        self.is_alive = is_alive


class ConnectFailed(Exception):
    """A server that could not be started or reached; `loss` has its exit code and its last stderr lines."""

    def __init__(self, loss: ServerLoss, rest_seconds: float | None = None) -> None:
        super().__init__(describe(loss))
        self.loss = loss
        self.rest_seconds = rest_seconds


def describe(loss: ServerLoss) -> str:
    """Return a readable message, with the last lines of stderr below it."""
    ended = "" if loss.exit_code is None else f" (exit code {loss.exit_code})"
    tail = "".join(f"\n    {line}" for line in loss.stderr_tail)
    return f"server {loss.server!r} {loss.message}{ended}" + (f"; its stderr ends:{tail}" if tail else "")


class Session:
    """One connection; `run` holds it open in its own task: the SDK's cancel scopes belong to one task."""

    def __init__(
        self,
        spec: ServerSpec,
        directory: Path | None,
        clean: Callable[[str], str],
        namespace: Namespace | None = None,
    ) -> None:
        self.spec = spec
        self.directory = directory
        self._namespace = namespace
        self._clean = clean
        self.introduction = Introduction()
        self._slots = asyncio.Semaphore(spec.options.max_concurrency)
        """Limits the calls in flight at the server; the others wait here."""
        self.missed_network = False
        """Whether it ended, and a process of its set tried to reach the network, which walls keep from it.

        An installer that is offline does not try, so its failure counts as well.
        """
        self._instance: str | None = None
        """The id of a keyed HTTP server's start, from its first result."""
        self._vitals = Vitals()
        self._rest_seconds: float | None = None
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._vitals.closed.is_set()

    @property
    def pid(self) -> int | None:
        return self._vitals.pid

    @functools.cached_property
    def disks(self) -> tuple[Sequence[Path], Path | None]:
        """The folders of ours that the server writes to, and the one that only this process writes to."""
        if self.spec.command is None:
            return (), None
        own = self.directory if self._namespace is None else self._namespace.directory
        if self.spec.options.data is Data.PRIVATE and own is not None:
            return (own,), own
        return (*named_data(self.spec).data, *([own] if own is not None else ())), own

    @property
    def loss(self) -> ServerLoss:
        """How a closed connection ended."""
        vitals = self._vitals
        stderr_tail = tuple(self._clean(line) for line in vitals.stderr_tail)
        reason = self._clean(vitals.reason) + (f", and {NO_NETWORK}" if self.missed_network else "")
        return ServerLoss(self.spec.name, reason, vitals.exit_code, stderr_tail)

    async def run(self) -> None:
        """Connect, stay connected until `close` or the server's end, clean up; raises only if cancelled."""
        self._task = asyncio.current_task()
        try:
            if self._vitals.closed.is_set():
                return
            async with asyncio.timeout(self.spec.options.connect_seconds) as deadline:
                async with (
                    self._lifetime(),
                    Client(self._transport(), client_info=_CLIENT_INFO, cache=None) as client,
                ):
                    self.introduction = await introduce(client, self.spec, self._clean)
                    self._slots = asyncio.Semaphore(self.introduction.max_concurrency)
                    deadline.reschedule(None)
                    await self._serve(client)
        except TimeoutError:
            self._vitals.explain(f"did not answer within {self.spec.options.connect_seconds:g} s")
        except (MCPError, OSError, ValidationError, ValueError) as error:
            self._vitals.explain(f"could not be reached: {_reason(error)}")
            self._rest_seconds = _rest_seconds(error)
        except BaseExceptionGroup as group:
            # A failure in the SDK's transport tasks arrives as a group; cancellation must stay cancellation.
            cancelled, failed = group.split(asyncio.CancelledError)
            if failed is not None:
                first = _first(failed)
                self._vitals.explain(f"connection failed: {_reason(first)}")
                self._rest_seconds = _rest_seconds(first)
            if cancelled is not None:
                raise asyncio.CancelledError from group
        finally:
            self._client = None
            self.missed_network = self._has_missed_network()
            self._vitals.explain("was closed")
            self._ended.set()
            if not self._ready.done():
                self._ready.set_exception(ConnectFailed(self.loss, self._rest_seconds))
                self._ready.exception()  # mark as retrieved: perhaps nobody waits for it

    async def wait_ready(self) -> None:
        """Wait until connected; raises ConnectFailed."""
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the connection and wait until its process is gone."""
        self._vitals.close("was closed")
        if not self._ready.done() and self._task is not None:
            self._task.cancel()
        await self._ended.wait()

    def abandon(self, reason: str) -> None:
        """End the connection without waiting, so that the next call gets another one."""
        self._vitals.close(reason)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, episode: str, clock: BusyClock
    ) -> tuple[wire.CallToolResult, Cause]:
        """Make one call; raises CallFailed for everything that is not the tool's own answer.

        The time-out and the clock measure the server: they do not run while the call waits for a free slot.
        """
        async with self._slots:
            with clock.running():
                return await self._call_now(tool, arguments, episode)

    async def _call_now(
        self, tool: str, arguments: Mapping[str, Any], episode: str
    ) -> tuple[wire.CallToolResult, Cause]:
        client = self._client
        if client is None or self._vitals.closed.is_set():
            raise CallFailed(Cause.CLOSED, describe(self.loss), was_sent=False)
        timeout_seconds = self.spec.options.timeout_seconds
        try:
            async with asyncio.timeout(timeout_seconds):
                result = await client.call_tool(tool, dict(arguments), meta=self._meta(episode))
        except TimeoutError:
            message = f"no answer within {timeout_seconds:g} s"
            raise CallFailed(Cause.TIMEOUT, message, is_alive=await self._is_alive(client)) from None
        except MCPError as error:
            raise await self._call_failed(error) from None
        except ValidationError as error:
            raise CallFailed(Cause.BAD_REPLY, f"the reply is not a tool result: {_reason(error)}") from None
        meta = result.meta or {}
        self._check_instance(meta.get(INSTANCE_KEY))
        if meta.get(FAULT_KEY) == BUG:
            raise CallFailed(Cause.UPSTREAM, render(result))
        if meta.get(FAULT_KEY) == UPSTREAM:
            return result, Cause.UPSTREAM
        if problem := self.introduction.output_problem(tool, result):
            raise CallFailed(Cause.BAD_REPLY, problem)
        return result, Cause.TOOL_ERROR if result.is_error else Cause.OK

    async def offerings(self) -> Offerings:
        """Read resources and prompts; none if the server is closed or slower than a call may be."""
        if self._client is None or not self.is_open:
            return Offerings()
        try:
            async with asyncio.timeout(self.spec.options.timeout_seconds):
                return await read_offerings(self._client, self._clean)
        except TimeoutError:
            return Offerings()

    async def drop(self, episode: str) -> None:
        """Have a keyed server forget an episode; a closed one has lost its state anyway."""
        if self._client is None or not self.is_open:
            return
        params = {"episode": episode}
        request = wire.Request[dict[str, Any], str](method=DROP_METHOD, params=params)
        try:
            async with asyncio.timeout(self.spec.options.timeout_seconds):
                await self._client.session.send_request(request, wire.EmptyResult)
        except (MCPError, TimeoutError, ValidationError) as error:
            reason = self._clean(_reason(error))
            logger.warning("server %s did not drop episode %s: %s", self.spec.name, episode, reason)

    def _meta(self, episode: str) -> wire.RequestParamsMeta | None:
        # The meta map is open: it may hold our keys as well as the protocol's.
        return cast(wire.RequestParamsMeta, {EPISODE_KEY: episode}) if self.introduction.is_keyed else None

    def _lifetime(self) -> contextlib.AbstractAsyncContextManager[None]:
        service = self.spec.service
        return contextlib.nullcontext() if service is None or service.lifetime is None else service.lifetime()

    def _transport(self) -> Transport | Server[Any]:
        spec = self.spec
        if spec.service is not None:
            return build(spec.service)  # the SDK's client calls a server object without any stream
        if spec.url is not None:
            return http_transport(
                spec.url,
                spec.headers,
                connect_seconds=spec.options.connect_seconds,
                max_message_bytes=spec.options.max_message_bytes,
            )
        return stdio_transport(command_of(spec, self.directory, self._namespace), self._vitals)

    def _has_missed_network(self) -> bool:
        if self._namespace is None or self._namespace.has_network:
            return False
        has_failed = not self._ready.done() or self._ready.exception() is not None
        return self._namespace.num_network_failures > 0 or (has_failed and installer(self.spec) is not None)

    def _check_instance(self, instance: str | None) -> None:
        """Raise CallFailed if a keyed HTTP server was restarted, because it lost every episode's state."""
        self._instance = self._instance or instance
        if instance != self._instance:
            self.abandon("was restarted: episode state was lost")
            raise CallFailed(Cause.CLOSED, describe(self.loss))

    async def _serve(self, client: Client) -> None:
        self._client = client
        self._ready.set_result(None)
        await self._vitals.closed.wait()
        self._client = None

    async def _is_alive(self, client: Client) -> bool:
        """Return whether the server answers: a tool may just be slow, but a hung server is replaced."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await client.list_tools()
        except (TimeoutError, MCPError, ValidationError) as error:
            if _rest_seconds(error) is None:  # else it is alive but busy
                self.abandon(f"hung: no answer to tools/list after a time-out ({_reason(error)})")
            return False
        return True

    async def _call_failed(self, error: MCPError) -> CallFailed:
        if self._vitals.closed.is_set():
            with contextlib.suppress(TimeoutError):
                # Its exit code and last stderr lines are known once its process has ended.
                await asyncio.wait_for(self._ended.wait(), _LAST_WORDS_SECONDS)
            return CallFailed(Cause.CLOSED, describe(self.loss))
        if error.code == EXPIRED_CODE:
            self.abandon("expired: the server no longer knows our session")
            return CallFailed(Cause.CLOSED, error.message, was_sent=False)
        if error.code in _CAUSES:
            was_sent = error.code not in (NOT_SENT_CODE, TURNED_AWAY_CODE)
            rest_seconds = _rest_seconds(error)
            return CallFailed(
                _CAUSES[error.code], error.message, was_sent=was_sent, rest_seconds=rest_seconds
            )
        if self.spec.is_remote and error.code == wire.CONNECTION_CLOSED:
            return CallFailed(Cause.CLOSED, error.message)
        if error.code == wire.METHOD_NOT_FOUND:
            return CallFailed(Cause.UNKNOWN_TOOL, error.message)
        # The server answered, so its error is about this call.
        return CallFailed(Cause.TOOL_ERROR, error.message)


def command_of(spec: ServerSpec, directory: Path | None, namespace: Namespace | None = None) -> Command:
    """Return the command with `${EPISODE_DIR}` filled in; without a `cwd` it runs in that directory."""
    assert spec.command is not None

    def fill(text: str) -> str:
        return text.replace(f"${{{EPISODE_DIR}}}", str(directory))

    package_installer = installer(spec)
    is_offline = package_installer is not None and namespace is not None and not namespace.has_network
    offline = package_installer.offline if package_installer is not None and is_offline else {}

    return Command(
        program=fill(spec.command),
        args=tuple(fill(arg) for arg in spec.args),
        env={**offline, **{key: fill(value) for key, value in spec.env.items()}},
        cwd=directory if spec.cwd is None else Path(fill(str(spec.cwd))),
        max_message_bytes=spec.options.max_message_bytes,
        namespace=namespace,
    )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _rest_seconds(error: BaseException) -> float | None:
    if not isinstance(error, MCPError) or error.code not in (TURNED_AWAY_CODE, BUSY_CODE):
        return None
    return float(error.data) if isinstance(error.data, int | float) else None


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, MCPError) else str(error)
    first_line = text.strip().partition("\n")[0]
    return first_line or type(error).__name__
