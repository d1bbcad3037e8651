"""JSON-RPC streams over streamable HTTP, with every HTTP fault made a typed reply.

The SDK folds every status into one message, and one refused connection ends the session for all calls in
flight. Answering those requests ourselves keeps the reason, and only the failed call sees the fault.
"""

import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import mcp_types as wire
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from turnwise.mcp.processes.launch import TOO_LARGE_CODE, UNREADABLE_CODE
from turnwise.mcp.replies import readable
from turnwise.system.net.retry_after import retry_after_seconds

NOT_SENT_CODE = -32911
"""The connection was never made, so the request never reached the server."""

HTTP_CODE = -32912
"""The server, or something on the way to it, answered with an HTTP error or broke off."""

EXPIRED_CODE = -32913
"""The server no longer knows our session: connect again."""

TURNED_AWAY_CODE = -32914
"""HTTP 429: the request was not processed. The error's data are the seconds that the server wants to rest."""

BUSY_CODE = -32915
"""HTTP 503 with Retry-After: the same, but the server may have started on the request."""

_UNSAID_SECONDS = 1.0
"""The rest after a 429 without Retry-After."""

_PLAIN = {"accept-encoding": "identity"}
"""Sent with every request: a compressed reply can expand a thousandfold."""

_INITIALIZE = re.compile(rb'"method"\s*:\s*"initialize"')
_OUTAGES = {NOT_SENT_CODE, TURNED_AWAY_CODE, BUSY_CODE}
_BROKEN_OFF = "connection failed"
_OF_THE_BODY = {b"content-encoding", b"content-length", b"transfer-encoding"}
_JSON = {"content-type": "application/json"}


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], *, connect_seconds: float, max_message_bytes: int
) -> AsyncIterator[TransportStreams]:
    """Open the streams; there is no read timeout here, because callers time their calls."""
    timeout = httpx2.Timeout(connect_seconds, read=None)
    limits = httpx2.Limits(max_connections=256, max_keepalive_connections=64)
    transport = _TypedFaults(httpx2.AsyncHTTPTransport(limits=limits), max_message_bytes)
    async with (
        httpx2.AsyncClient(headers={**_PLAIN, **headers}, timeout=timeout, transport=transport) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=max_message_bytes) as streams,
    ):
        yield streams


class _TypedFaults(httpx2.AsyncBaseTransport):
    """Forwards requests; a failed POST is answered with a JSON-RPC error that gives the reason."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, max_message_bytes: int) -> None:
        self._inner = inner
        self._max_message_bytes = max_message_bytes
        self._outage: bytes | None = None
        """The fault that the last `server/discover` met, if that was an outage."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            response = await self._inner.handle_async_request(request)
            return await _uncompressed_stream(request, response, self._max_message_bytes)
        # The SDK takes any error to `server/discover` for a server of the older protocol and falls back to
        # `initialize`. After an outage that would hide what a modern server promises about episodes.
        if self._outage is not None and _INITIALIZE.search(request.content):
            fault, self._outage = self._outage, None
            return httpx2.Response(400, headers=_JSON, content=fault, request=request)
        response = await self._answer(request)
        is_probe = request.headers.get("mcp-method") == "server/discover"
        self._outage = response.content if is_probe and _is_outage(response) else None
        return response

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
            return await self._checked(request, response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _fault(request, NOT_SENT_CODE, f"cannot connect: {_reason(error)}")
        except httpx2.TransportError as error:
            return _fault(request, HTTP_CODE, f"{_BROKEN_OFF}: {_reason(error)}")

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if status == 200 and kind.startswith("text/event-stream"):
            return await _uncompressed_stream(request, response, self._max_message_bytes)
        try:
            body = await self._body(response)
        except _Unreadable as error:
            if status == 200:
                return _fault(request, error.code, str(error))
            body = b""  # only the error's text is lost; its status counts
        finally:
            await response.aclose()
        if status in (202, 204):
            return httpx2.Response(status, request=request)
        if status != 200:
            return _refused(request, response, body)
        if not kind.startswith("application/json"):
            return _fault(request, UNREADABLE_CODE, f"the reply's content type is {kind[:80] or 'missing'}")
        # As bytes: a header that is not ASCII cannot be written back from text.
        kept = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_BODY]
        return httpx2.Response(200, headers=kept, content=readable(body), request=request)

    async def _body(self, response: httpx2.Response) -> bytes:
        """Return the decoded body, of bounded size; some servers compress although asked not to."""
        decode, most = _decoder(response.headers.get("content-encoding", "")), self._max_message_bytes
        body = bytearray()
        async for chunk in response.stream:  # type: ignore[union-attr]  # the async transport streams async
            try:
                body += decode(chunk, most + 1 - len(body))
            except zlib.error as error:
                raise _Unreadable(UNREADABLE_CODE, f"the reply cannot be decompressed: {error}") from None
            if len(body) > most:
                raise _Unreadable(TOO_LARGE_CODE, f"the result has over {most:,} bytes, which is too large")
        return bytes(body)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Unreadable(Exception):
    """A body that is too large or cannot be decoded; `code` is the JSON-RPC error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    """Return `decode(chunk, max_bytes)`; `max_bytes` limits what decompression produces."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return lambda chunk, _: chunk
    if encoding not in ("gzip", "deflate"):
        raise _Unreadable(UNREADABLE_CODE, f"the reply's content encoding is {encoding[:40]!r}")
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress  # 32: gzip or zlib, as its header says


class _ReadableEvents(httpx2.AsyncByteStream):
    """An event stream whose JSON every strict parser reads; a line of more than `max_bytes` is unchanged."""

    def __init__(self, inner: Any, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for chunk in self._inner:
            start = len(rest)
            rest += chunk
            while (end := rest.find(b"\n", start) + 1) or len(rest) > self._max_bytes:
                yield _readable_line(bytes(rest[:end])) if end else bytes(rest)
                del rest[: end or len(rest)]
                start = 0
        yield bytes(rest)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _readable_line(line: bytes) -> bytes:
    data = line.removeprefix(b"data:").strip()
    is_json = line.startswith(b"data:") and data.startswith(b"{")
    return line.replace(data, readable(data)) if is_json else line


async def _uncompressed_stream(
    request: httpx2.Request, response: httpx2.Response, max_bytes: int
) -> httpx2.Response:
    """Pass an event stream on; refuse a compressed one, whose size is known only after decompression."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        response.stream = _ReadableEvents(response.stream, max_bytes)
        return response
    await response.aclose()
    return _fault(request, UNREADABLE_CODE, f"the stream is compressed ({encoding[:40]})")


def _refused(request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
    """Map an HTTP status to an expired session, the server's own JSON-RPC error, or a fault."""
    status, reply = response.status_code, _rpc_error(body)
    asked = retry_after_seconds(response.headers.get("retry-after"))
    if "mcp-session-id" in request.headers and (status == 404 or _denies_session(reply)):
        return _fault(request, EXPIRED_CODE, f"HTTP {status}: the server no longer knows this session")
    if reply is not None and status in (400, 404):
        # Only these are about the request itself; a 401, 429 or 5xx is not, even with such a body.
        return _json(request, status, reply)
    message = f"HTTP {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    if 300 <= status < 400:
        # Not followed: our headers, with keys in them, would go to an address that mcp.json does not name.
        message += f": it redirects to {_place(response)}; put that URL into mcp.json"
    if status == 429:
        return _fault(request, TURNED_AWAY_CODE, message, _UNSAID_SECONDS if asked is None else asked)
    if status == 503 and asked is not None:
        return _fault(request, BUSY_CODE, message, asked)
    return _fault(request, HTTP_CODE, message)


def _is_outage(response: httpx2.Response) -> bool:
    """Whether the reply is a fault of ours that says nothing about the server itself."""
    if response.status_code != 400:
        return False
    error = (_rpc_error(response.content) or {}).get("error", {})
    is_broken_off = error.get("code") == HTTP_CODE and str(error.get("message")).startswith(_BROKEN_OFF)
    return is_broken_off or error.get("code") in _OUTAGES


def _place(response: httpx2.Response) -> str:
    """Return the target of a redirect without its query, which may hold a key."""
    try:
        place = urlsplit(response.headers.get("location", ""))
    except ValueError:
        return "a place that is no URL"
    return f"{place.netloc or 'itself'}{place.path}"


def _fault(request: httpx2.Request, code: int, message: str, data: float | None = None) -> httpx2.Response:
    # 400 makes the SDK look for a JSON-RPC error in the body; the SDK sets the request's own id.
    error = {"code": code, "message": message, "data": data}
    return _json(request, 400, {"jsonrpc": "2.0", "id": 0, "error": error})


def _json(request: httpx2.Request, status: int, body: Mapping[str, Any]) -> httpx2.Response:
    return httpx2.Response(status, headers=_JSON, content=json.dumps(body).encode(), request=request)


def _rpc_error(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error in an HTTP error's body; adds a null id if there is none, for the SDK."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(parsed, dict)
        or parsed.get("jsonrpc") != "2.0"
        or not isinstance(parsed.get("error"), dict)
    ):
        return None
    return {"id": None, **parsed}


def _denies_session(reply: Mapping[str, Any] | None) -> bool:
    """Return whether the session is unknown: the much-copied TypeScript examples send this, not a 404."""
    error = reply["error"] if reply else {}
    return error.get("code") == wire.CONNECTION_CLOSED and "session" in str(error.get("message")).lower()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
