"""The client of an engine behind HTTP, on another GPU or machine.

The client keeps the weights it published last. Every request names them by their digest. If the server holds
others, because it was restarted or another run used it, the client publishes its own again before anything is
sampled. See docs/guides/engines.md.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import httpx2

from turnwise.engines.wire import (
    MAX_LINE_BYTES,
    AnswerLine,
    Packed,
    ServerState,
    content_digest,
    pack,
    read_line,
    read_state,
    write_asks,
)
from turnwise.system.net.addresses import check_token
from turnwise.system.net.line_splitter import LineSplitter
from turnwise.types import Completion, Sampling
from turnwise.types.protocols import Adapter, Ask, EngineDown

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

TOKEN_VARIABLE = "TURNWISE_ENGINE_TOKEN"  # noqa: S105 - the name of the variable, not the token
WAIT_SECONDS = 120.0
"""How long requests wait for a lost server to return; vLLM may take two minutes to start."""
SILENCE_SECONDS = 30.0
"""Silence after which a server counts as lost; it sends a heartbeat every two seconds."""
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
"""How long an idle connection is kept. Below the server's 75, or a request could be sent on a closing one."""
LOOK_SECONDS = 0.5
"""Interval between checks whether a lost server is back."""
PIECE_BYTES = 2**20
NUM_TRIES = 5
"""Attempts to send a request that the server has not started."""


class _Away(Exception):
    """The server is unreachable or broke off its answer; it may come back."""


class _Other(Exception):
    """The server holds weights other than those the request names."""


class RemoteEngine:
    """Samples on the server at `url`. The token is sent only in a header.

    wait_seconds: how long requests that have not started wait for an unreachable server; started ones fail.
    silence_seconds: a server that sends nothing for this long counts as unreachable.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        wait_seconds: float = WAIT_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        check_token(token)
        self._url = url.rstrip("/")
        self._wait_seconds = wait_seconds
        # No redirects, no proxies: prompts, weights and token must reach only the configured host.
        self._client = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS
            ),
            trust_env=False,
        )
        self._base: Packed | None = None
        self._adapter: Packed | None = None
        self._held = ""
        self._is_ready = False
        self._readying: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._jobs: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def connect(self) -> ServerState:
        """Wait for the server and return its state. Raises EngineDown."""
        return await self._patiently(self._health)

    # --- sampling ----------------------------------------------------------------------------------------

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn. Cancelling it closes the connection, and the server frees its slot."""
        [future] = self.submit([Ask(tuple(prompt_ids), sampling, seed)])
        return await future

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Send a batch in one request. More than one ask needs a server with a BatchEngine.

        Cancelled asks free their slots only when the whole batch is cancelled.
        """
        if self._is_closed:
            raise EngineDown("the engine is closed")
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Completion]] = [loop.create_future() for _ in asks]
        job = asyncio.ensure_future(self._answer(list(asks), futures))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        for future in futures:
            future.add_done_callback(partial(_cancel_unwanted, job, futures))
        return futures

    async def _answer(self, asks: list[Ask], futures: "list[asyncio.Future[Completion]]") -> None:
        """Resolve every future, with its completion or an exception."""
        failure: Exception = EngineDown("the engine is closed")
        try:
            await self._ask(asks, futures)
            failure = EngineDown(f"{self._url} ended its answer too soon")
        except (EngineDown, ValueError) as error:
            failure = error
        finally:
            for future in futures:
                if not future.done():
                    future.set_exception(failure)

    async def _ask(self, asks: list[Ask], futures: "list[asyncio.Future[Completion]]") -> None:
        for _ in range(NUM_TRIES):
            await self._ready()
            content = write_asks(asks, self._held)
            try:
                async with contextlib.aclosing(self._lines("/complete", content)) as lines:
                    async for line in lines:
                        _settle(futures, line)
                return
            except _Other:
                self._is_ready = False  # new weights were published meanwhile, or the server lost ours
            except _Away as error:
                self._lose(error)
                if not isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                    # connected: the server may have started the request
                    raise EngineDown(f"{self._url} is gone: {error}") from None
        raise EngineDown(f"{self._url} did not take a request {NUM_TRIES} times in a row")

    async def forget(self) -> None:
        """Drop everything the server's engine cached from earlier completions."""
        await self._ready()
        try:
            await self._order("/forget")
        except _Away as error:
            self._lose(error)
            raise EngineDown(f"{self._url} is gone: {error}") from None

    async def sleep(self) -> None:
        """Make the server's engine release memory until the next publication, if that is enabled there."""
        with contextlib.suppress(_Away):  # a lost server holds no memory; the next publication reports it
            await self._order("/sleep")

    # --- weights -----------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> str:
        """The digest of the weights to sample from; empty if none were published."""
        last = self._adapter or self._base
        return last.digest if last is not None else ""

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Send new weights and return when they are in use.

        If the server is unreachable, they are kept here and sent when it is back, before anything is sampled.
        """
        if self._is_closed:
            raise EngineDown("the engine is closed")
        async with self._changing:
            before = self._base, self._adapter
            if isinstance(weights, Adapter):
                over = self._base.digest if self._base is not None else ""
                self._adapter = await asyncio.to_thread(pack, weights, version, over)
            else:
                self._base, self._adapter = await asyncio.to_thread(pack, weights, version), None
            try:
                await self._bring_up_to_date()
            except _Away as error:
                self._lose(error)
            except BaseException:
                self._base, self._adapter = before
                raise

    async def _bring_up_to_date(self) -> None:
        """Send the weights that the server should hold and does not."""
        state = await self._health()
        base, adapter = self._base, self._adapter
        if not self._wanted and state.holding:
            raise ValueError(
                f"{self._url} samples from version {state.version} that another run published: start it again"
            )
        holding = state.holding
        if base is not None and (state.base != base.digest or (adapter is None and holding != base.digest)):
            await self._send(base, state)
            holding = base.digest
        if adapter is not None and holding != adapter.digest:
            await self._send(adapter, state)
        self._held, self._is_ready = self._wanted, True

    async def _send(self, packed: Packed, state: ServerState) -> None:
        size = len(packed.content)
        if size > state.max_weights_bytes:
            raise ValueError(
                f"weights: {size / 1e9:,.3f} GB, the server takes {state.max_weights_bytes / 1e9:,.3f} "
                "(--max-weights-gb)"
            )
        headers = {"Content-Length": str(size), "Content-Digest": content_digest(packed.digest)}
        await self._order("/publish", _chunks(packed.content), headers)

    # --- the server --------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait until the server is reachable and holds the wanted weights; all callers share one attempt."""
        if self._is_closed:
            raise EngineDown("the engine is closed")
        if self._is_ready:
            return
        if self._readying is None:
            self._readying = asyncio.ensure_future(self._make_ready())
            self._readying.add_done_callback(self._end_readying)
        await asyncio.shield(self._readying)

    def _end_readying(self, done: "asyncio.Task[None]") -> None:
        self._readying = None
        if not done.cancelled():
            done.exception()  # marks it as retrieved: asyncio would log it if no caller waits any more

    async def _make_ready(self) -> None:
        async def look() -> None:
            async with self._changing:
                if not self._is_ready:
                    await self._bring_up_to_date()

        try:
            await self._patiently(look)
        except ValueError as error:
            if not self._wanted:
                raise
            raise EngineDown(f"{self._url} does not take again what it had: {error}") from None

    async def _patiently(self, look: Callable[[], Awaitable[Found]]) -> Found:
        until = time.monotonic() + self._wait_seconds
        while True:
            try:
                return await look()
            except _Away as error:
                if time.monotonic() >= until:
                    raise EngineDown(f"{self._url} is not there: {error}") from None
            await asyncio.sleep(LOOK_SECONDS)

    def _lose(self, error: _Away) -> None:
        if self._is_ready:
            logger.warning("the engine at %s is gone: %s; waiting for it", self._url, error)
        self._is_ready = False

    async def _health(self) -> ServerState:
        try:
            response = await self._client.get(f"{self._url}/health")
        except httpx2.TransportError as error:
            raise _Away(_words(error)) from error
        _refuse(response.status_code, response.content[:500])
        return read_state(response.content)

    async def _order(self, path: str, content: Any = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a command and wait for the line that confirms it."""
        if self._is_closed:
            raise EngineDown("the engine is closed")
        async with contextlib.aclosing(self._lines(path, content, headers)) as lines:
            async for line in lines:
                line.raise_fault()
                return
        raise _Away("it ended its answer too soon")

    async def _lines(
        self, path: str, content: Any, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[AnswerLine, None]:
        """Yield the answer's lines. Raises _Away, _Other, EngineDown, or ValueError for a bad request."""
        try:
            async with self._client.stream(
                "POST", self._url + path, content=content, headers=headers
            ) as response:
                if response.status_code != httpx2.codes.OK:
                    _refuse(response.status_code, await _beginning(response))
                async with contextlib.aclosing(read_lines(response.aiter_raw())) as lines:
                    async for line in lines:
                        yield line
        except httpx2.TransportError as error:
            raise _Away(_words(error)) from error
        except RuntimeError as error:  # httpx2 raises this if the client is closed
            raise EngineDown(f"the engine is closed: {error}") from None

    async def close(self) -> None:
        """Fail all waiting requests with EngineDown. The server keeps running."""
        self._is_closed = True
        jobs = [*self._jobs, *([self._readying] if self._readying is not None else [])]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self._client.aclose()


async def read_lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[AnswerLine, None]:
    """Yield the answers in a response body, however it is split; EngineDown if a line is too long."""
    splitter = LineSplitter(MAX_LINE_BYTES)
    async for part in parts:
        for line in splitter.feed(part):
            if line.is_cut:
                raise EngineDown(f"the engine's server sent a line of {line.num_bytes:,} bytes")
            if not line.is_blank:  # a blank line only shows that the server is alive
                yield read_line(line.data)
        if splitter.num_skipped_bytes:
            raise EngineDown(f"the engine's server sent a line of more than {MAX_LINE_BYTES:,} bytes")


def _settle(futures: "list[asyncio.Future[Completion]]", line: AnswerLine) -> None:
    if not 0 <= line.number < len(futures):
        raise EngineDown(f"the engine's server answered ask {line.number} of {len(futures)}")
    future = futures[line.number]
    if future.done():  # cancelled
        return
    try:
        future.set_result(line.completion())
    except (EngineDown, ValueError) as error:
        future.set_exception(error)


def _cancel_unwanted(job: "asyncio.Task[None]", futures: "list[asyncio.Future[Completion]]", _: Any) -> None:
    if all(future.cancelled() for future in futures):
        job.cancel()


async def _beginning(response: httpx2.Response) -> bytes:
    async for part in response.aiter_raw():
        return part[:500]
    return b""


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content in 1 MiB pieces: sending one must not take longer than `silence_seconds`."""
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


def _refuse(status: int, content: bytes) -> None:
    """Map an HTTP error to our exceptions."""
    words = content.decode("utf-8", "replace")
    if status == httpx2.codes.OK:
        return
    if status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        raise EngineDown(
            f"the engine's server refuses the token: is {TOKEN_VARIABLE} the same on both sides?"
        )
    if status == httpx2.codes.CONFLICT:
        raise _Other
    if status in (httpx2.codes.BAD_REQUEST, httpx2.codes.CONTENT_TOO_LARGE):
        raise ValueError(words)
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR or status == httpx2.codes.UNPROCESSABLE_CONTENT:
        raise _Away(f"status {status}: {words}")
    raise EngineDown(f"no engine of turnwise answers there: status {status}")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
