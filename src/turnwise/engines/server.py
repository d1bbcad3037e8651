"""An engine behind HTTP: token ids in, token ids and log-probs out, weights as safetensors.

    GET  /health     the engine's kind and model, and the weights it holds
    POST /complete   asks; answered with one line per ask as it finishes
    POST /publish    weights as a safetensors file, with its digest in Content-Digest
    POST /forget     drop the caches
    POST /sleep      release memory until the next publication

POST requests are answered with lines of JSON; blank lines in between show that the server is alive. A request
to `/complete` names the weights it needs by their digest and is refused (409) if the server holds others, so
nothing is sampled from the wrong weights.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from turnwise.engines.wire import (
    BEAT_SECONDS,
    MAX_ASKS_BYTES,
    PROTOCOL,
    AnswerLine,
    completion_line,
    content_digest,
    read_asks,
    unpack,
    write_line,
)
from turnwise.system.net.admission import Admission
from turnwise.types import Completion
from turnwise.types.protocols import Adapter, Ask, BatchEngine, Engine, EngineDown, SleepingEngine

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
"""Stands for the digest after a publication failed half-way; no request names it, so none is answered."""


class Server:
    """One engine, the digests of the weights it holds, and a handler per route."""

    def __init__(self, engine: Engine, *, kind: str, model: str, max_weights_bytes: int) -> None:
        self._engine = engine
        self._kind, self._model = kind, model
        self._max_weights_bytes = max_weights_bytes
        self._holding, self._base, self._version = "", "", 0
        self._publishing = asyncio.Lock()
        self._publications: set[asyncio.Future[AnswerLine]] = set()

    def application(self, admission: Admission) -> ASGIApp:
        answers: Mapping[str, Callable[[Request], Awaitable[Any]]] = {
            "/complete": self._complete,
            "/publish": self._publish,
            "/forget": self._forget,
            "/sleep": self._sleep,
        }
        routes = [Route(path, _answering(answer), methods=["POST"]) for path, answer in answers.items()]
        return admission.over(Starlette(routes=[Route("/health", self._health), *routes]))

    async def _health(self, request: Request) -> Response:
        state = {
            "protocol": PROTOCOL,
            "kind": self._kind,
            "model": self._model,
            "holding": self._holding,
            "base": self._base,
            "version": self._version,
            "takes_batches": isinstance(self._engine, BatchEngine),
            "max_weights_bytes": self._max_weights_bytes,
        }
        return Response(json.dumps(state), media_type="application/json")

    # --- sampling ----------------------------------------------------------------------------------------

    async def _complete(self, request: Request) -> ASGIApp:
        asks, wanted = read_asks(bytes(await _body(request, MAX_ASKS_BYTES)))
        if wanted != self._holding:
            return PlainTextResponse("other weights are held than those meant", 409)
        return Streamed({future: number for number, future in enumerate(self._begin(asks))}, _sampled)

    def _begin(self, asks: list[Ask]) -> list[asyncio.Future[Completion]]:
        if len(asks) == 1:
            [ask] = asks
            return [asyncio.ensure_future(self._engine.complete(ask.prompt_ids, ask.sampling, ask.seed))]
        if not isinstance(self._engine, BatchEngine):
            raise ValueError(f"engine {self._kind!r} takes no whole batches")
        return self._engine.submit(asks)

    async def _forget(self, request: Request) -> ASGIApp:
        if not isinstance(self._engine, BatchEngine):
            raise ValueError(f"engine {self._kind!r} takes no whole batches")
        return Streamed({asyncio.ensure_future(self._engine.forget()): 0}, _done)

    async def _sleep(self, request: Request) -> ASGIApp:
        if not isinstance(self._engine, SleepingEngine):
            return Streamed({}, _done)
        return Streamed({asyncio.ensure_future(self._engine.sleep()): 0}, _done)

    # --- weights -----------------------------------------------------------------------------------------

    async def _publish(self, request: Request) -> ASGIApp:
        digest = hashlib.sha256()
        content = bytes(await _body(request, self._max_weights_bytes, digest.update))
        if request.headers.get("content-digest") != content_digest(digest.hexdigest()):
            return PlainTextResponse("the body is not the one that its Content-Digest is of", 422)
        # Runs to its end even if the client disconnects: no digest names half-published weights.
        taking = asyncio.ensure_future(self._take(content, digest.hexdigest()))
        self._publications.add(taking)
        taking.add_done_callback(self._publications.discard)
        return Streamed({asyncio.ensure_future(_shielded(taking)): 0}, lambda _, line: line)

    async def _take(self, content: bytes, digest: str) -> AnswerLine:
        async with self._publishing:
            try:
                unpacked = await asyncio.to_thread(unpack, content)
            except ValueError as error:
                return AnswerLine(wrong=str(error))
            is_adapter = isinstance(unpacked.weights, Adapter)
            if is_adapter and unpacked.over != self._base:
                return AnswerLine(
                    wrong="weights: an adapter over other whole weights than those held: start it again"
                )
            try:
                await self._engine.publish(unpacked.weights, unpacked.version)
            except ValueError as error:
                return AnswerLine(wrong=str(error))
            except EngineDown as error:
                self._holding = self._base = UNKNOWN
                return AnswerLine(down=str(error))
            self._holding, self._version = digest, unpacked.version
            self._base = self._base if is_adapter else digest
            return AnswerLine()


class Streamed:
    """A response with one line per future as it finishes; a client that disconnects cancels the futures."""

    def __init__(
        self, pending: Mapping["asyncio.Future[Any]", int], line_of: Callable[[int, Any], AnswerLine]
    ) -> None:
        self._numbers = dict(pending)
        self._line_of = line_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        jobs = [asyncio.ensure_future(self._write(send)), asyncio.ensure_future(_gone(receive))]
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*jobs, *self._numbers):
                task.cancel()
            await asyncio.gather(*jobs, *self._numbers, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        pending = set(self._numbers)
        while pending:
            done, pending = await asyncio.wait(
                pending, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            content = b"".join(write_line(self._line(task)) for task in done) or b"\n"
            await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b"" if self._numbers else write_line(AnswerLine())})

    def _line(self, done: "asyncio.Future[Any]") -> AnswerLine:
        number = self._numbers[done]
        try:
            return self._line_of(number, done.result())
        except ValueError as error:
            return AnswerLine(number=number, wrong=str(error))
        except EngineDown as error:
            return AnswerLine(number=number, down=str(error))
        except (Exception, asyncio.CancelledError) as error:  # a bug of ours: log it and answer its ask
            logger.exception("an engine raised what none should")
            return AnswerLine(number=number, down=f"{type(error).__name__} in the engine")


def _sampled(number: int, completion: Completion) -> AnswerLine:
    return completion_line(number, completion)


def _done(number: int, _: None) -> AnswerLine:
    return AnswerLine(number=number)


async def _shielded(taking: "asyncio.Future[AnswerLine]") -> AnswerLine:
    return await asyncio.shield(taking)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _TooLarge(Exception):
    """The request body is larger than the limit."""


async def _body(request: Request, limit: int, on_part: Callable[[bytes], None] = lambda _: None) -> bytearray:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _TooLarge(f"a body of {declared} bytes; at most {limit} are taken")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > limit:
            raise _TooLarge(f"a body of more than {limit} bytes")
        on_part(part)
    return content


def _answering(answer: Callable[[Request], Awaitable[Any]]) -> Any:
    async def endpoint(request: Request) -> Any:
        try:
            return await answer(request)
        except _TooLarge as error:
            return PlainTextResponse(str(error), 413)
        except ValueError as error:
            return PlainTextResponse(str(error), 400)
        except EngineDown as error:
            return PlainTextResponse(str(error), 503)
        except ClientDisconnect:
            return PlainTextResponse("", 400)  # the client is gone

    return endpoint
