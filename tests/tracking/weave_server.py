"""A server for Weave's client on this machine: answers what it must, and keeps what it was sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_VIEWER = {"username": "someone", "entity": "team", "defaultEntity": {"name": "team"}, "flags": "{}"}
_ANSWERS: dict[str, Any] = {
    "/server_info": {"min_required_weave_python_version": "0.0.0", "trace_server_version": "99.0.0"},
    "/graphql": {"data": {"viewer": _VIEWER, "project": {"name": "ours"}}},
    "/obj/create": {"digest": "o" * 43},
    "/table/create": {"digest": "t" * 43, "row_digests": []},
    "/file/create": {"digest": "f" * 43},
}


@dataclass
class Sent:
    """What came: each request's path and body."""

    url: str
    is_down: bool = False
    """Whether calls are refused, as by a service in trouble."""
    requests: list[tuple[str, bytes]] = field(default_factory=list)

    def calls(self, op: str) -> list[dict[str, Any]]:
        """Finished calls of one operation, in the order they were begun."""
        found: dict[str, dict[str, Any]] = {}
        for path, body in self.requests:
            if path.endswith("/calls/complete"):
                found |= {call["id"]: call for call in json.loads(body)["batch"]}
            elif path.endswith(("/call/start", "/call/end")):
                for half in json.loads(body).values():
                    found[half["id"]] = {**found.get(half["id"], {}), **half}
        chosen = [call for call in found.values() if f"/op/{op}:" in call.get("op_name", "")]
        return sorted(chosen, key=lambda call: call["started_at"])


@contextmanager
def weave_server() -> Iterator[Sent]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            sent.requests.append((path, body))
            is_refused = sent.is_down and "/call" in path
            answer = json.dumps(_ANSWERS.get(path, {})).encode()
            self.send_response(403 if is_refused else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sent = Sent(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
