"""How our HTTP servers start and run: uvicorn, with a time limit for requests that never become complete."""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 30.0
"""How long a request may take to arrive after its connection; longer by its bytes over the rate below."""

MIN_BYTES_PER_SECOND = 16 << 10


def server_config(app: ASGIApp, **settings: Any) -> uvicorn.Config:
    """The configuration of a server that writes no access log: the URL of a request may hold a token."""
    return uvicorn.Config(app, http=_TimedProtocol, log_level="warning", access_log=False, **settings)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and does not listen yet: clients that come early are refused and retry.

    ValueError if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Declared as TCP: otherwise asyncio leaves Nagle's algorithm on, which costs 40 ms per answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ValueError(f"--host {host} --port {port}: {error.strerror}") from None
    return listener


class _TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn chooses its parser
    """Closes a connection whose request does not arrive. Answers may take as long as they like."""

    _timer: asyncio.TimerHandle | None = None
    _deadline = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait(num_bytes=0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        is_complete = self.cycle is not None and not self.cycle.more_body
        if is_complete and (self.cycle is not before or not self.cycle.response_complete):
            self._stop_waiting()
        else:
            self._wait(num_bytes=len(data))

    def _wait(self, *, num_bytes: int) -> None:
        now = self.loop.time()
        if self._timer is None:
            self._deadline = now + REQUEST_SECONDS
            self._timer = self.loop.call_at(self._deadline, self._check)
        self._deadline += num_bytes / MIN_BYTES_PER_SECOND

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self.loop.time()
        if self.flow.read_paused:  # it is we who do not read
            self._deadline = now + REQUEST_SECONDS
        if now < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._check)
            return
        self._timer = None
        self.transport.abort()
