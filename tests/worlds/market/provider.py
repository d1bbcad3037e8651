"""An HTTP server on loopback that answers by a script, path by path, and records the requests."""

import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted answer; bytes are sent as they are, any other body as JSON."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    conduct: Literal["answer", "drop", "hang", "cut", "trickle", "stream"] = "answer"
    """drop: close before a byte; hang: send nothing; cut: close inside the body; trickle: a byte every 20 ms;
    stream: the body repeatedly, without a length."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class LoopbackProvider:
    """The server; the last answer of a path repeats, and an unknown path is a plain-text 404."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.script: dict[str, list[Answer]] = {}
        self.is_closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api"

    def play(self, path: str, *answers: Answer) -> None:
        self.script["/api/" + path] = list(answers)

    def next_answer(self, path: str) -> Answer:
        answers = self.script.get(path, [Answer(b"404 page not found", 404)])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.is_closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    provider: LoopbackProvider
    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """No traceback: in half of the tests the client closes the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        provider, url = self.server.provider, urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_form = headers.get("content-type", "").startswith("multipart/")
        body = raw if is_form else json.loads(raw) if raw else None
        provider.requests.append(Seen(self.command, url.path, dict(parse_qsl(url.query)), headers, body))
        self._give(provider.next_answer(url.path))

    def _give(self, answer: Answer) -> None:
        if answer.conduct in {"drop", "hang"}:
            if answer.conduct == "hang":
                self.server.provider.is_closing.wait(10)
            return self._hang_up()
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        is_open_ended = answer.conduct in {"trickle", "stream"}
        if not is_open_ended:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if is_open_ended:
            return self._pour(body, 0.02 if answer.conduct == "trickle" else 0.0)
        if answer.conduct == "cut":
            self.wfile.write(body[: len(body) // 2])
            return self._hang_up()
        self.wfile.write(body)
        return None

    def _pour(self, body: bytes, pause_seconds: float) -> None:
        """Send far more than a client should read, but not for ever: one that reads it all must not hang."""
        self.close_connection = True
        for _ in range(500):
            if self.server.provider.is_closing.wait(pause_seconds):
                break
            self.wfile.write(body)
            self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        """No log."""
