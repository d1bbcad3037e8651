"""Run a server written with the MCP SDK on a stand-in for it: `python -I light_sdk.py SERVER ARGUMENTS`.

An exploration starts its servers many times, and most of a start is the import of the SDK. Whether ours and
the SDK understand each other is tested elsewhere.
"""

import base64
import inspect
import json
import re
import runpy
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ToolError(Exception):
    """What a tool reports to the model."""


class NotServed(Exception):
    """A request that such a server does not answer."""


class ToolAnnotations:
    def __init__(self, **hints: Any) -> None:
        self.hints = hints


class MCPServer:
    """Tools, resources and prompts, served over stdin and stdout."""

    def __init__(self, name: str) -> None:
        self._info = {"name": name, "version": "1"}
        self._tools: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}
        self._resources: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}
        self._prompts: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}

    def tool(
        self,
        name: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
    ) -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            described: dict[str, Any] = {
                "name": name or function.__name__,
                "description": description or inspect.getdoc(function) or "",
                "inputSchema": schema_of(function),
            }
            if annotations is not None:
                described["annotations"] = annotations.hints
            self._tools[described["name"]] = (described, function)
            return function

        return add

    def resource(self, uri: str, name: str, mime_type: str = "text/plain") -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            key = "uriTemplate" if "{" in uri else "uri"
            self._resources[uri] = ({key: uri, "name": name, "mimeType": mime_type}, function)
            return function

        return add

    def prompt(self) -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            arguments = [{"name": one, "required": True} for one in inspect.signature(function).parameters]
            described = {"name": function.__name__, "description": inspect.getdoc(function) or ""}
            self._prompts[function.__name__] = ({**described, "arguments": arguments}, function)
            return function

        return add

    def run(self) -> None:
        for line in sys.stdin:
            asked = json.loads(line)
            if "id" not in asked:
                continue
            try:
                said: dict[str, Any] = {"result": self._answer(asked["method"], asked.get("params") or {})}
            except NotServed as error:
                said = {"error": {"code": -32601, "message": str(error)}}
            except Exception as error:  # noqa: BLE001 (what the SDK does)
                said = {"error": {"code": -32603, "message": str(error)}}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)

    def _answer(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                offered = {"tools": self._tools, "resources": self._resources, "prompts": self._prompts}
                capabilities: dict[str, Any] = {
                    kind: {} for kind, found in offered.items() if found or kind == "tools"
                }
                version = given["protocolVersion"]
                return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": self._info}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [described for described, _ in self._tools.values()]}
            case "tools/call":
                return self._call(given["name"], given.get("arguments") or {})
            case "resources/list":
                return {"resources": [it for it, _ in self._resources.values() if "uri" in it]}
            case "resources/templates/list":
                return {"resourceTemplates": [it for it, _ in self._resources.values() if "uri" not in it]}
            case "resources/read":
                return self._read(given["uri"])
            case "prompts/list":
                return {"prompts": [described for described, _ in self._prompts.values()]}
        raise NotServed(method)

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        described, function = self._tools[name]
        missing = [one for one in described["inputSchema"].get("required", ()) if one not in arguments]
        try:
            if missing:
                raise ToolError(f"missing: {', '.join(missing)}")
            known = {
                one: value
                for one, value in arguments.items()
                if one in described["inputSchema"]["properties"]
            }
            answer = function(**known)
        except Exception as error:  # noqa: BLE001 (what the SDK does)
            text = f"Error executing tool {name}: {error}"
            return {"content": [{"type": "text", "text": text}], "isError": True}
        return {"content": [{"type": "text", "text": text_of(answer)}]}

    def _read(self, uri: str) -> dict[str, Any]:
        described, function = self._resources[uri]
        found = function()
        content = {"uri": uri, "mimeType": described["mimeType"]}
        if isinstance(found, bytes):
            return {"contents": [{**content, "blob": base64.b64encode(found).decode()}]}
        return {"contents": [{**content, "text": text_of(found)}]}


def text_of(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, indent=2, ensure_ascii=False)


def schema_of(function: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = {"title": re.sub("_", " ", name).title(), **kind_of(hints[name])}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        else:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def kind_of(hint: Any) -> dict[str, Any]:
    if typing.get_origin(hint) is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    return {"type": PLAIN[hint]}


def stand_in() -> None:
    """Take the place of the SDK's modules."""
    offered: dict[str, dict[str, Any]] = {
        "mcp": {},
        "mcp.server": {"MCPServer": MCPServer},
        "mcp.server.mcpserver": {},
        "mcp.server.mcpserver.exceptions": {"ToolError": ToolError},
        "mcp.types": {"ToolAnnotations": ToolAnnotations},
    }
    for name, found in offered.items():
        module = types.ModuleType(name)
        module.__dict__.update(found)
        sys.modules[name] = module


if __name__ == "__main__":
    stand_in()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
