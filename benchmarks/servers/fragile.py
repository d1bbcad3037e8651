"""A stdio MCP server of the standard library only, which a caller can make fail in every way."""

import json
import os
import sys
import threading
import time

OUT = threading.Lock()
HALF_AN_EMOJI = b'"\\ud83d"'
ODD = {
    "half an emoji": HALF_AN_EMOJI,
    "bytes": b'"\xff\xfe"',
    "nesting": b"[" * 400 + b"]" * 400,
    "integer": b"7" * 6_000,
}


def send(line: bytes) -> None:
    with OUT:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.flush()


def reply(number: int, **answer: object) -> None:
    send(json.dumps({"jsonrpc": "2.0", "id": number, **answer}).encode())


def text(value: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": value}], **more}


def die_later() -> None:
    time.sleep(0.1)
    os._exit(9)


def call(number: int, what: str, seconds: float = 0.0) -> None:
    if what in ODD:
        result = b'{"content": [], "structuredContent": {"value": %b}}' % ODD[what]
        send(b'{"jsonrpc": "2.0", "id": %d, "result": %b}' % (number, result))
    elif what == "die":
        os._exit(9)
    elif what == "garbage":
        send(b'{"jsonrpc": "2.0", "id": %d, "result": {"cont' % number)
    elif what == "full disk":
        reply(number, result=text("ENOSPC: no space left on device", isError=True))
    elif what == "endless":  # answers nobody any more
        time.sleep(3600)
    else:
        time.sleep(seconds)
        reply(number, result=text("done"))
        if what == "die later":
            die_later()


def answer(number: int, method: str, params: dict) -> None:
    if method == "initialize":
        server = {"serverInfo": {"name": "fragile", "version": "1"}, "capabilities": {"tools": {}}}
        reply(number, result={"protocolVersion": "2025-06-18", **server})
    elif method == "tools/list":
        reply(number, result={"tools": [{"name": "do", "inputSchema": {"type": "object"}}]})
    elif method != "tools/call":
        reply(number, error={"code": -32601, "message": "Method not found"})
    elif params["arguments"]["what"] == "slow":  # in a thread: the server answers others meanwhile
        threading.Thread(target=call, args=(number,), kwargs=params["arguments"], daemon=True).start()
    else:
        call(number, **params["arguments"])


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer(request["id"], request["method"], request.get("params") or {})
