"""A proxy that makes a streamable HTTP server fail.

    http_proxy.py SETTINGS PORT UPSTREAM_PORT COMMAND…

It starts the server itself, so that it can also restart it.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from typing import Any

from ledger import Ledger
from plan import Plan, Settings

_SLOW_SECONDS = 0.7


class Front:
    """Forwards HTTP requests to one server and injects the planned faults."""

    def __init__(self, settings: Settings, upstream: int, command: list[str]) -> None:
        self._settings = settings
        self._upstream = upstream
        self._command = command
        self._plan = Plan(settings, settings.server)
        self._ledger = Ledger(settings.folder, settings.server)
        self._num_starts = 0
        self._starting = asyncio.Lock()
        self._child = self._start()
        self._answering: set[asyncio.Task[None] | None] = set()
        """Held here, since asyncio itself holds them weakly."""

    @property
    def _name(self) -> str:
        return f"{self._settings.server} {self._num_starts}"

    def _start(self) -> "subprocess.Popen[bytes]":
        self._num_starts += 1
        env = {**os.environ, "PORT": str(self._upstream)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self._command], env=env, **quiet)

    async def serve(self, port: int) -> None:
        await self._wait_for_upstream()
        server = await asyncio.start_server(self._answer, "127.0.0.1", port)
        print("ready", flush=True)
        async with server:
            # it ends with the process that started it
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        self._child.kill()
        self._child.wait()

    async def _wait_for_upstream(self) -> None:
        for _ in range(3_000):  # on a busy machine, a start takes more than a minute
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
                writer.close()
                return
            await asyncio.sleep(0.1)
        raise SystemExit(f"{self._settings.server} does not listen on port {self._upstream}")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.add(task := asyncio.current_task())
        # cancelled when this proxy ends
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_content_length(head))
            await self._meet(head, body, writer)
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()
        self._answering.discard(task)

    async def _meet(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        request = _request(body)
        fault = self._plan.at_call() if request else None
        if fault is not None:
            self._ledger.fault(fault, request, self._name)
        if head.startswith(b"GET "):
            fault = "HTTP 405"  # no stream for unsolicited messages: it would outlive its client here
        if fault in _STATUSES:
            writer.write(_STATUSES[fault])
            await writer.drain()
            return
        if fault == "drops the connection before the call":
            return
        if fault == "restarts":
            await self._restart()
        if fault == "answers late":
            await asyncio.sleep(_SLOW_SECONDS)
        if request:
            self._ledger.call(request, self._name)
        await self._forward(head, body, writer, fault)

    async def _restart(self) -> None:
        async with self._starting:
            self._child.kill()
            await asyncio.to_thread(self._child.wait)
            self._child = self._start()
            await self._wait_for_upstream()

    async def _forward(
        self, head: bytes, body: bytes, writer: asyncio.StreamWriter, fault: str | None
    ) -> None:
        upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            kept = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")]
            to_upstream.write(b"\r\n".join([*kept, b"connection: close", b"", b""]) + body)
            if fault is None or fault in ("answers late", "restarts"):
                while chunk := await upstream.read(65_536):
                    writer.write(chunk)
                    await writer.drain()
                return
            reply = await upstream.read(-1)
            if fault == "cuts the reply off":
                writer.write(reply[: len(reply) - 20])
                await writer.drain()
        finally:
            to_upstream.close()


def _refusal(status: bytes, *headers: bytes) -> bytes:
    lines = (b"HTTP/1.1 " + status, *headers, b"content-length: 0", b"connection: close")
    return b"\r\n".join((*lines, b"", b""))


_STATUSES = {
    "HTTP 405": _refusal(b"405 Method Not Allowed"),
    "HTTP 429": _refusal(b"429 Too Many Requests", b"retry-after: 1"),
    "HTTP 503": _refusal(b"503 Service Unavailable", b"retry-after: 1"),
    "HTTP 500": _refusal(b"500 Internal Server Error"),
}


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _request(body: bytes) -> dict[str, Any] | None:
    """The tool call in a request; None if it is something else."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    is_call = isinstance(parsed, dict) and parsed.get("method") == "tools/call"
    return parsed if is_call else None


if __name__ == "__main__":
    settings = Settings.parsed(sys.argv[1])
    front = Front(settings, int(sys.argv[3]), sys.argv[4:])
    asyncio.run(front.serve(int(sys.argv[2])))
