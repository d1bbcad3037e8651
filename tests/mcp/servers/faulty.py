"""A stdio MCP server of the standard library only: it reads and writes any file, and misbehaves on demand.

The argument `what` of its other tools says how.
"""

import json
import os
import signal
import subprocess
import sys
import time

MODE, MARKER, *_ = [*sys.argv[1:], "", ""]
OBJECT = {"type": "object"}
KEY = os.environ.get("FAULTY_API_KEY", "of nobody")
TOOLS = [
    {
        "name": "do",
        "description": f"With the key {KEY}.",
        "inputSchema": OBJECT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "write", "inputSchema": OBJECT},
    {"name": "bad_structure", "inputSchema": OBJECT, "outputSchema": {**OBJECT, "required": ["x"]}},
]
PATH = {"path": {"type": "string"}}
for name, taken in (("read_file", PATH), ("write_file", {**PATH, "text": {"type": "string"}})):
    schema = {"type": "object", "properties": taken, "required": list(taken)}
    TOOLS.append({"name": name, "inputSchema": schema})
FLOODS = {"flood": "x" * 65536, "flood_lines": "junk\n" * 10000, "flood_blank": "\n" * 65536}
num_calls = 0


def is_first(marker):
    """Whether the file does not exist yet; it does afterwards."""
    if os.path.exists(marker):
        return False
    open(marker, "w").close()
    return True


def send(number, **answer):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, **answer}) + "\n")
    sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def die():
    print("dying words", file=sys.stderr, flush=True)
    os._exit(9)


def read_file(path):
    with open(os.path.expanduser(path)) as file:
        return file.read()


def write_file(path, text):
    with open(os.path.expanduser(path), "w") as file:
        file.write(text)
    return "written"


def on_file(act, **arguments):
    try:
        return text(act(**arguments))
    except OSError as error:
        return text(f"failed: {error.strerror}")


def call(number, what="echo", **arguments):
    """Do `what`; return the result of the call, or send an answer and return nothing."""
    global num_calls
    num_calls += 1
    match what:
        case "echo":
            return text(f"{arguments.get('text', '')}#{num_calls} in {os.getpid()}")
        case "die":
            die()
        case "die_once":
            if is_first(arguments["marker"]):
                die()
            return text("alive")
        case "then_die":
            send(number, result=text("last words"))
            die()
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)
        case "sleep":
            time.sleep(arguments["seconds"])
            return text("slept")
        case "junk":
            print("this is a log line on stdout, not a message")
            return text("after junk")
        case "unasked":
            send(99999, result=text("nobody asked"))
            print(
                json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hello"}})
            )
            return text("after the unasked")
        case "flood" | "flood_lines" | "flood_blank":
            while True:
                sys.stdout.write(FLOODS[what])
        case "big":
            return text("y" * arguments["size"])
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "error":
            return text("no such thing", isError=True)
        case "full_disk":  # every write to this device fails
            try:
                with open("/dev/full", "w") as full:
                    full.write("one more")
            except OSError as error:
                return text(f"Error: {error}", isError=True)
        case "nest":  # folders inside each other, the innermost without permissions
            here = os.open(os.path.expandvars(arguments["path"]), os.O_RDONLY)
            for _ in range(arguments["levels"]):
                os.mkdir("n", dir_fd=here)
                outer, here = here, os.open("n", os.O_RDONLY, dir_fd=here)
                os.close(outer)
            os.fchmod(here, 0)
            return text("nested")
        case "raw":  # a value that strict parsers of JSON refuse, in a structure or as the text
            value = bytes.fromhex(arguments["value"]) * arguments.get("times", 1)
            value += bytes.fromhex(arguments.get("rest", "")) * arguments.get("times", 1)
            result = b'{"content": [], "structuredContent": {"value": %b}}'
            if arguments.get("is_text"):
                result = b'{"content": [{"type": "text", "text": "%b"}]}'
            sys.stdout.buffer.write(
                b'{"jsonrpc": "2.0", "id": %d, "result": %b}\n' % (number, result % value)
            )
            sys.stdout.flush()
        case "wrong_shape":
            return {"content": "not a list"}
        case "no_result":
            send(number, result=None)
        case "broken_reply":
            print(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"cont', flush=True)
        case "rpc_error":
            send(number, error={"code": arguments["code"], "message": "refused by the server"})
        case "rpc_full_disk":
            send(number, error={"code": -32603, "message": "ENOSPC: no space left on device"})
    return None


def answer(number, method, params):
    if method == "initialize":
        server = {"serverInfo": {"name": "faulty", "version": "1"}, "capabilities": {"tools": {}}}
        send(number, result={"protocolVersion": "2025-06-18", **server})
    elif method == "tools/list":
        send(number, result={"tools": TOOLS})
    elif method == "tools/call":
        arguments = params.get("arguments") or {}
        act = {"read_file": read_file, "write_file": write_file}.get(params["name"])
        result = on_file(act, **arguments) if act else call(number, **arguments)
        if result is not None:
            send(number, result=result)
    else:
        send(number, error={"code": -32601, "message": "Method not found"})


if MODE == "crash_at_import":
    print("about to fail", file=sys.stderr)
    raise SystemExit(__import__("does_not_exist"))
if MODE == "silent":
    time.sleep(3600)
if MODE == "crash_once" and is_first(MARKER):
    raise SystemExit(7)
if MODE == "junk_first":
    print("Welcome to the server!\nLoading...\n\x1b[31mred\x1b[0m\n{not json}\n[1, 2]")
if MODE == "orphan":  # a grandchild that keeps our stdout open and outlives us
    subprocess.Popen(["sleep", "3600"])
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer(request["id"], request["method"], request.get("params") or {})
