"""The client of an engine behind HTTP, on another GPU or machine.

What was published is kept here. The server says with what it holds whether it is still that, so that one that
was started again, or that another run has used, gets it anew before anything is sampled. See docs/engines.md.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import httpx

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
from turnwise.protocols import Adapter, Ask, EngineDown
from turnwise.runtime.addresses import check_token
from turnwise.runtime.line_splitter import LineSplitter
from turnwise.types import Completion, Sampling

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

TOKEN_VARIABLE = "TURNWISE_ENGINE_TOKEN"  # noqa: S105 - where it is, not what it is
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
"""For which a connection is kept; less than the server's, or a request could meet one that is closing."""
LOOK_SECONDS = 0.5
"""Between two looks whether a server that was gone is back."""
PIECE_BYTES = 2**20
NUM_TRIES = 5
"""Of a request that the server has not begun."""


class _Away(Exception):
    """Nobody answers there, or not to the end: it may come back."""


class _Other(Exception):
    """The server holds other weights than those meant."""


class RemoteEngine:
    """Asks the server at `url`; the token goes into a header, nowhere else.

    wait_seconds: how long a server that is gone is waited for, by requests that have not begun. Those that
    have are lost with it. silence_seconds: without a sign of life, a server is gone.
    """

    def __init__(
        self, url: str, *, token: str = "", wait_seconds: float = 120.0, silence_seconds: float = 30.0
    ) -> None:
        check_token(token)
        self._url = url.rstrip("/")
        self._wait_seconds = wait_seconds
        # Neither redirects nor proxies: prompts, weights and token go to the host that was named.
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(
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
        """What the server says of itself, once it is there. Raises EngineDown."""
        return await self._patiently(self._health)

    # --- sampling ----------------------------------------------------------------------------------------

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn; cancelling it closes the connection, and the server frees its place."""
        [future] = self.submit([Ask(tuple(prompt_ids), sampling, seed)])
        return await future

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Hand over a batch as one, to an engine that takes batches; what is cancelled frees its place only
        with all the others."""
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
        """Each future gets its completion, or what is in its place."""
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
                self._is_ready = False  # what is meant may have changed on the way; or what is held there
            except _Away as error:
                self._lose(error)
                if not isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                    # it may have begun
                    raise EngineDown(f"{self._url} is gone: {error}") from None
        raise EngineDown(f"{self._url} did not take a request {NUM_TRIES} times in a row")

    async def forget(self) -> None:
        """Drop whatever the server's engine kept of earlier completions."""
        await self._ready()
        try:
            await self._order("/forget")
        except _Away as error:
            self._lose(error)
            raise EngineDown(f"{self._url} is gone: {error}") from None

    async def sleep(self) -> None:
        """The server's engine gives memory back until the next publication, if it was started so."""
        with contextlib.suppress(_Away):  # then it holds none; the publication sees to the rest
            await self._order("/sleep")

    # --- weights -----------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> str:
        """The digest of what is to be sampled from."""
        last = self._adapter or self._base
        return last.digest if last is not None else ""

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Send new weights; returns when they are in use. Should the server be gone, they wait here for it,
        and nothing is sampled before it has them."""
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
        """Let the server hold what is wanted, whatever it holds now."""
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
        await self._order("/publish", _pieces(packed.content), headers)

    # --- the server --------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait until the server is there and holds what is wanted; once for all who wait."""
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
            done.exception()  # told to those who wait, of whom there may be none any more

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
        except httpx.TransportError as error:
            raise _Away(_words(error)) from error
        _refuse(response.status_code, response.content[:500])
        return read_state(response.content)

    async def _order(self, path: str, content: Any = b"", headers: Mapping[str, str] | None = None) -> None:
        """One thing to be done, and the line that says it is."""
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
        """The answer, line by line. Raises _Away, _Other, ValueError for what the server refuses."""
        try:
            async with self._client.stream(
                "POST", self._url + path, content=content, headers=headers
            ) as response:
                if response.status_code != httpx.codes.OK:
                    _refuse(response.status_code, await _beginning(response))
                async with contextlib.aclosing(read_lines(response.aiter_raw())) as lines:
                    async for line in lines:
                        yield line
        except httpx.TransportError as error:
            raise _Away(_words(error)) from error
        except RuntimeError as error:  # httpx's word for a client that was closed
            raise EngineDown(f"the engine is closed: {error}") from None

    async def close(self) -> None:
        """Whoever still waits gets EngineDown; the server goes on."""
        self._is_closed = True
        jobs = [*self._jobs, *([self._readying] if self._readying is not None else [])]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self._client.aclose()


async def read_lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[AnswerLine, None]:
    """The answers in a response body, whatever the size of its parts; EngineDown for a line too long."""
    splitter = LineSplitter(MAX_LINE_BYTES)
    async for part in parts:
        for line in splitter.feed(part):
            if line.is_cut:
                raise EngineDown(f"the engine's server sent a line of {line.num_bytes:,} bytes")
            if not line.is_blank:  # a blank line is a sign of life
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


async def _beginning(response: httpx.Response) -> bytes:
    async for part in response.aiter_raw():
        return part[:500]
    return b""


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    """Small enough that each is sent within the time of silence."""
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


def _refuse(status: int, content: bytes) -> None:
    """Raise what an answer that is none comes to."""
    words = content.decode("utf-8", "replace")
    if status == httpx.codes.OK:
        return
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise EngineDown(
            f"the engine's server refuses the token: is {TOKEN_VARIABLE} the same on both sides?"
        )
    if status == httpx.codes.CONFLICT:
        raise _Other
    if status in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE):
        raise ValueError(words)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.UNPROCESSABLE_ENTITY:
        raise _Away(f"status {status}: {words}")
    raise EngineDown(f"no engine of turnwise answers there: status {status}")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
