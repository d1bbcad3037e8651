"""Plain Python functions as the tools of a server inside this process.

The schema of a tool comes from its function's type hints, its description from the docstring. Calls take the
same way as those of any server, so that time limits, faults, recording and replay hold for them too.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pydantic_core
from mcp.server.mcpserver.exceptions import InvalidSignature
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from pydantic import ValidationError
from pydantic.errors import PydanticUserError

from turnwise.mcp.processes.function_process import FunctionProcess
from turnwise.mcp.serve import Handler, ServedTool, Service, ToolError, Unavailable
from turnwise.mcp.spec import ServerOptions, ServerSpec
from turnwise.system.python_functions import function_name, is_given
from turnwise.system.threads import run_detached

logger = logging.getLogger(__name__)

SERVER = "functions"
"""The name of the server that has a recipe's functions."""


def function_server(
    functions: Mapping[str, Callable[..., Any]], options: ServerOptions | None = None
) -> ServerSpec:
    """Return the server of these functions, by name in the recipe; ValueError if one cannot be a tool.

    Functions that can be imported run in a separate process, the others in threads of this one.
    """
    options = options or ServerOptions()
    importable = [
        name for name, function in functions.items() if not is_given(name) and function_name(function) == name
    ]
    process = FunctionProcess(importable, options.timeout_seconds)
    tools = [function_tool(name, function) for name, function in functions.items()]
    tools = [
        replace(tool, handler=process.handler(name)) if name in importable else tool
        for name, tool in zip(functions, tools, strict=True)
    ]
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"tools.functions: two functions are called {twice[0]!r}: rename one")
    # No `drop`: the functions keep their state in the caller's process, which no episode could restore.
    service = Service(SERVER, tools, lifetime=process.lifetime if importable else None)
    return ServerSpec(name=SERVER, service=service, options=options)


def function_tool(name: str, function: Callable[..., Any]) -> ServedTool:
    """Return the tool of a function, described by its signature and docstring; ValueError if it cannot be."""
    tool_name = getattr(function, "__name__", name.rpartition(":")[2])
    if tool_name == "<lambda>":
        raise ValueError(f"tool {name!r}: a lambda tells the model neither a name nor a purpose: use def")
    try:
        signature = func_metadata(function, structured_output=False)
        schema = signature.arg_model.model_json_schema(by_alias=True)
    except (InvalidSignature, PydanticUserError, TypeError, ValueError) as error:
        [reason, *_] = str(error).splitlines()
        raise ValueError(f"tool {name!r}: its parameters cannot be described: {reason}") from error
    return ServedTool(
        name=tool_name,
        description=inspect.getdoc(function) or "",
        input_schema=_untitled(schema),
        handler=_handler(tool_name, function, signature),
        is_read_only=False,
        is_idempotent=False,
    )


def _handler(name: str, function: Callable[..., Any], signature: FuncMetadata) -> Handler:
    async def handle(arguments: Mapping[str, Any], _episode: str) -> str:
        try:
            checked = signature.validate_arguments(dict(arguments))
        except ValidationError as error:
            raise ToolError(_first_issue(error)) from None
        try:
            value = await _call(function, checked)
        except (ToolError, Unavailable):
            raise
        except Exception as error:
            # The model made the call, so it sees the error; the traceback helps if the function has a bug.
            logger.info("tool %s raised", name, exc_info=error)
            raise ToolError(f"{type(error).__name__}: {error}") from None
        return value if isinstance(value, str) else pydantic_core.to_json(value, fallback=str).decode()

    return handle


async def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    # In a thread: a function that blocks must not stop the other episodes. A call that runs out of time
    # leaves its thread behind, since Python cannot end it.
    value = await run_detached(functools.partial(function, **arguments))
    return await value if inspect.isawaitable(value) else value


def _first_issue(error: ValidationError) -> str:
    [issue, *_] = error.errors(include_url=False, include_input=False)
    return f"{'.'.join(str(part) for part in issue['loc'])}: {issue['msg']}"


def _untitled(schema: Any, *, is_named: bool = False) -> Any:
    """Drop the titles that pydantic derives from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(value, is_named=key in ("properties", "$defs") and not is_named)
        for key, value in schema.items()
        if is_named or key != "title" or not isinstance(value, str)
    }
