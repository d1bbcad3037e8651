"""Our HTTP servers close connections whose request never becomes complete, and no others."""

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

import turnwise
from turnwise.system.net import http_serving
from turnwise.system.net.http_serving import server_config


async def _size(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def _refusal(request: Request) -> PlainTextResponse:
    return PlainTextResponse("no", 401)


async def _stream(request: Request) -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"part"
            await anyio.sleep(0.4)

    return StreamingResponse(parts())


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that gives a request 1 s, plus a second for every 2,000 bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_serving, "REQUEST_SECONDS", 1.0)
        patch.setattr(http_serving, "MIN_BYTES_PER_SECOND", 2_000)
        routes = [
            Route("/size", _size, methods=["POST"]),
            Route("/refusal", _refusal, methods=["POST"]),
            Route("/stream", _stream),
        ]
        config = server_config(Starlette(routes=routes), port=0, timeout_keep_alive=60)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        thread.join(timeout=30)


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        yield client


def answer(client: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(4096):
            parts.append(part)
    return b"".join(parts)


def test_all_our_servers_have_the_limit() -> None:
    source = Path(turnwise.__file__).parent
    configured = [path.name for path in source.rglob("*.py") if "uvicorn.Config(" in path.read_text()]
    assert configured == ["http_serving.py"]


def _drip(client: socket.socket) -> None:
    for _ in range(600):
        client.sendall(b"a")
        time.sleep(0.05)


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"POST /si",
        b"POST /size HTTP/1.1\r\nHost: x\r\nA: ",
        b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
        b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhal",
    ],
)
def test_a_request_that_stops_half_way_is_closed(port: int, beginning: bytes) -> None:
    with connected(port) as client:
        client.sendall(beginning)
        assert answer(client) == b""


def test_a_request_that_drips_is_closed(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nA: ")
        with pytest.raises(ConnectionError):
            _drip(client)


def test_a_second_request_that_stops_half_way_is_closed(port: int) -> None:
    whole = b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
    with connected(port) as client:
        client.sendall(whole)
        assert client.recv(4096).endswith(b"2")
        client.sendall(whole[:-1])
        assert answer(client) == b""


def test_a_refused_request_whose_body_does_not_come_is_closed(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"POST /refusal HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        assert b"401" in answer(client)


def test_a_slow_upload_that_keeps_coming_a_long_answer_and_a_pause_are_not_cut(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n")
        for _ in range(8):
            client.sendall(b"a" * 1_000)
            time.sleep(0.2)
        assert client.recv(4096).endswith(b"8000")
        time.sleep(1.2)
        client.sendall(b"GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer(client).count(b"part") == 4
