"""A stdio MCP server that reads and writes any file; an argument names a file that it writes when it starts.

It uses the standard library only: importing the SDK would take longer than all else it does.
"""

import json
import sys
from pathlib import Path

if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text("started")

PATH, TEXT = {"path": {"type": "string"}}, {"text": {"type": "string"}}
TOOLS = {"write": {**PATH, **TEXT}, "read": PATH}


def call(tool, path, text=""):
    try:
        if tool == "read":
            return Path(path).expanduser().read_text()
        Path(path).expanduser().write_text(text)
        return "written"
    except OSError as error:
        return f"failed: {error.strerror}"


def answer(method, params):
    if method == "initialize":
        server = {"serverInfo": {"name": "scribe", "version": "1"}}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **server}
    if method == "tools/list":
        tools = [
            {"name": name, "inputSchema": {"type": "object", "properties": taken, "required": list(taken)}}
            for name, taken in TOOLS.items()
        ]
        return {"tools": tools}
    return {"content": [{"type": "text", "text": call(params["name"], **params["arguments"])}]}


for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") in ("initialize", "tools/list", "tools/call"):
        reply = {"result": answer(request["method"], request.get("params"))}
    elif "id" in request:
        reply = {"error": {"code": -32601, "message": "Method not found"}}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)
