"""A stdio MCP server of nothing but the standard library that misbehaves on demand: `do` says how."""

import json
import os
import signal
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
MARKER = sys.argv[2] if len(sys.argv) > 2 else ""

if MODE == "crash_at_import":
    print("about to fail", file=sys.stderr)
    raise SystemExit(__import__("does_not_exist"))
if MODE == "silent":
    time.sleep(3600)
if MODE == "crash_once" and not os.path.exists(MARKER):
    open(MARKER, "w").close()
    raise SystemExit(7)
if MODE == "junk_first":
    print("Welcome to the server!\nLoading...\n\x1b[31mred\x1b[0m\n{not json}\n[1, 2]")
if MODE == "orphan":  # a grandchild that keeps our stdout open and outlives us
    subprocess.Popen(["sleep", "3600"])

READ_ONLY = {"readOnlyHint": True}
TOOLS = [
    {
        "name": "do",
        "description": f"With the key {os.environ.get('FAULTY_API_KEY', 'of nobody')}.",
        "inputSchema": {"type": "object"},
        "annotations": READ_ONLY,
    },
    {"name": "write", "inputSchema": {"type": "object"}},
    {
        "name": "bad_structure",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["x"]},
    },
]
num_calls = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def die(code=9):
    os._exit(code)


def call(arguments):
    global num_calls
    num_calls += 1
    what = arguments.get("what", "echo")
    if what == "echo":
        return text(f"{arguments.get('text', '')}#{num_calls} in {os.getpid()}")
    if what == "die":
        print("dying words", file=sys.stderr)
        sys.stderr.flush()
        die()
    if what == "die_once" and not os.path.exists(arguments["marker"]):
        open(arguments["marker"], "w").close()
        die()
    if what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(3600)
    if what == "sleep":
        time.sleep(arguments["seconds"])
        return text("slept")
    if what == "junk":
        print("this is a log line on stdout, not a message")
        return text("after junk")
    if what == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if what == "flood_lines":
        while True:
            sys.stdout.write("junk\n" * 10000)
    if what == "flood_blank":
        while True:
            sys.stdout.write("\n" * 65536)
    if what == "big":
        return text("y" * arguments["size"])
    if what == "environment":
        return text(json.dumps(dict(os.environ)))
    if what == "error":
        return text("no such thing", isError=True)
    if what == "full_disk":  # the real thing: every write to this device fails
        try:
            with open("/dev/full", "w") as full:
                full.write("one more")
        except OSError as error:
            return text(f"Error: {error}", isError=True)
    if what == "wrong_shape":
        return {"content": "not a list"}
    if what == "no_result":
        return None
    return text("unknown")


def answer(request):
    method = request["method"]
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(request["params"].get("arguments") or {})
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    arguments = (request.get("params") or {}).get("arguments") or {}
    what = arguments.get("what")
    if what == "broken_reply":
        start = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
        print(start[:-5], flush=True)
    elif what == "rpc_error":
        send({"id": request["id"], "error": {"code": arguments["code"], "message": "refused by the server"}})
    elif what == "rpc_full_disk":
        send({"id": request["id"], "error": {"code": -32603, "message": "ENOSPC: no space left on device"}})
    elif what == "then_die":
        send({"id": request["id"], "result": text("last words")})
        die()
    elif what == "unasked":
        send({"id": 99999, "result": text("nobody asked")})
        send({"method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        send({"id": request["id"], "result": text("after the unasked")})
    elif request["method"] not in ("initialize", "tools/list", "tools/call"):
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        send({"id": request["id"], "result": answer(request)})
