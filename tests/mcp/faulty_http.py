"""A streamable HTTP server in a thread that fails on demand: the argument `what` of a call says how."""

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.mcp.leases import spec_of
from turnwise.mcp.spec import ServerSpec


@dataclass
class Door:
    """Turns requests away, as a rate limit does: first for `seconds`, or always."""

    method: str = "tools/call"
    status: int = 429
    seconds: float = 0.5
    retry_after: str = "0.5"
    is_ever_open: bool = True
    num_refused: int = 0
    num_greeted: int = 0
    closed_at: float | None = None

    def refuses(self, method: str) -> bool:
        self.num_greeted += method == "initialize"
        if method != self.method or not self.retry_after:
            return False
        self.closed_at = self.closed_at or time.monotonic()
        if self.is_ever_open and time.monotonic() >= self.closed_at + self.seconds:
            return False
        self.num_refused += 1
        return True


OPEN = Door(retry_after="")
JSON, STREAM, PAGE = "application/json", "text/event-stream", "text/html"
CANNED: dict[Any, tuple[int, bytes, str, dict[str, str]]] = {
    "moved": (307, b"", PAGE, {"location": "https://elsewhere.example.com/mcp?key=x"}),
    "moved nowhere": (307, b"", PAGE, {"location": "//["}),
    "bad gzip": (200, b"no gzip", JSON, {"content_encoding": "gzip"}),
    "gzip stream": (200, gzip.compress(b"data: {}\n\n"), STREAM, {"content_encoding": "gzip"}),
    "junk": (200, b"{]", JSON, {}),
    "html": (200, b"<html>login</html>", PAGE, {}),
}


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


class Handler(BaseHTTPRequestHandler):
    """Speaks the protocol of 2025-06-18, without sessions."""

    protocol_version = "HTTP/1.1"
    failed_keys: set[str]
    open_connections: set[socket.socket]
    door: Door
    token = ""

    def setup(self) -> None:
        super().setup()
        self.open_connections.add(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = body["method"]
        if self.token and self.headers.get("authorization") != f"Bearer {self.token}":
            self.reply(401, b"who are you?", "text/plain")
        elif self.door.refuses(method):
            self.reply(self.door.status, b"", "text/plain", retry_after=self.door.retry_after)
        elif method == "tools/call":
            self.call(body["id"], **(body["params"].get("arguments") or {}))
        elif method == "initialize":
            server = {"serverInfo": {"name": "http", "version": "1"}}
            self.result(
                body["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **server}
            )
        elif method == "tools/list":
            tool = {"name": "do", "inputSchema": {"type": "object"}}
            reading = {**tool, "name": "read", "annotations": {"readOnlyHint": True}}
            self.result(body["id"], {"tools": [tool, reading]})
        elif "id" in body:
            self.reply(404, b"no such method", "text/plain")
        else:
            self.reply(202, b"", "text/plain")

    def do_GET(self) -> None:
        self.reply(405, b"", "text/plain")

    do_DELETE = do_GET

    def call(self, number: int, what: Any = "echo", key: str = "", times: int = 1, **_: Any) -> None:
        if what == "once" and key not in self.failed_keys:
            self.failed_keys.add(key)
            self.reply(503, b"busy", "text/plain")
        elif what in CANNED:
            status, body, kind, headers = CANNED[what]
            self.reply(status, body, kind, **headers)
        elif isinstance(what, int):
            self.reply(what, b"<html>no</html>" * times, PAGE)
        elif what == "rpc":  # an HTTP error with a JSON-RPC error as its body
            refusal = {"code": -32603, "message": f"refused with {times}"}
            refused = json.dumps({"jsonrpc": "2.0", "id": number, "error": refusal})
            self.reply(times, refused.encode(), JSON)
        elif what in ("odd", "odd stream"):  # half an emoji, and bytes that are not UTF-8
            odd = self.message(number, text("odd")).replace(b"odd", b"\\ud83d\xff")
            is_stream = what == "odd stream"
            self.reply(200, b"data: %b\n\n" % odd if is_stream else odd, STREAM if is_stream else JSON)
        elif what in ("gzip", "br"):
            body = gzip.compress(self.message(number, text("fine" * times)))
            self.reply(200, body, JSON, content_encoding=what)
        elif what == "drop":
            self.drop()
        elif what == "drop_json":
            self.reply(200, b'{"jsonrpc":', JSON, content_length="1000")
            self.drop()
        elif what == "drop_stream":
            self.reply(200, b": hello\n\n", STREAM, content_length="")
            self.drop()
        else:
            if what == "sleep":
                time.sleep(0.6)
            self.result(number, text("fine" * times))

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def message(self, number: int, result: dict[str, Any]) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()

    def result(self, number: int, result: dict[str, Any]) -> None:
        self.reply(200, self.message(number, result), JSON)

    def reply(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        """Send a reply; a header with an empty value is left out."""
        self.send_response(status)
        for name, value in {"content_type": kind, "content_length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


@contextlib.contextmanager
def http_server(token: str = "", door: Door = OPEN) -> Iterator[str]:
    """The URL of such a server."""
    own = {"failed_keys": set(), "open_connections": set(), "token": token, "door": door}
    handler: Any = type("OwnHandler", (Handler,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        for connection in handler.open_connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


def remote(url: str, *, headers: dict[str, str] | None = None, **options: Any) -> ServerSpec:
    return spec_of("remote", {"url": url, "headers": headers or {}, "turnwise": options})
