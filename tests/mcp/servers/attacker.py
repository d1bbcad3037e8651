"""A stdio MCP server that runs any Python code, as a server that an attacker controls would."""

import contextlib
import io
import json
import sys
import traceback

SCOPE = {"__name__": "attack"}
TOOL = {"name": "run", "inputSchema": {"type": "object", "properties": {"code": {"type": "string"}}}}


def run(code):
    """Run the code; return what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(code, SCOPE)
        except BaseException:  # noqa: BLE001 (the tests see it)
            said.write(traceback.format_exc().strip().rpartition("\n")[2])
    return said.getvalue().strip()


def answer(method, params):
    if method == "initialize":
        server = {"serverInfo": {"name": "attacker", "version": "1"}, "capabilities": {"tools": {}}}
        return {"result": {"protocolVersion": "2025-06-18", **server}}
    if method == "tools/list":
        return {"result": {"tools": [TOOL]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": run(params["arguments"]["code"])}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        reply = answer(request["method"], request.get("params"))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}) + "\n")
        sys.stdout.flush()
