"""Check what the methods of a user's environment return, and convert it to our types.

A `ValueError` says what the method must return; the caller adds the names of class and method.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.functions import function_tool
from turnwise.types import CallFailed, Message, Task, Tool

SERVER = "environment"
"""What the tools of an environment have in place of a server's name."""

_ROLES = ("system", "user", "assistant")
_SHOWN_CHARS = 120


def prompt_of(returned: Any, task: Task) -> tuple[Message, ...]:
    """Return the messages that an episode begins with: what `reset` returned, or the task's own prompt."""
    if returned is None:
        messages = task.prompt
        if not messages:
            raise ValueError("must return the prompt, since the task has none")
    elif isinstance(returned, str):
        messages = (Message("user", returned),)
    elif isinstance(returned, Sequence):
        messages = tuple(_message(item) for item in returned)
    else:
        raise ValueError(f"must return a text, a list of messages or None, not {_shown(returned)}")
    if not messages or messages[-1].role == "assistant" or not messages[-1].content.strip():
        raise ValueError("must return a prompt that ends with a message to the model")
    return messages


def _message(item: Any) -> Message:
    match item:
        case Message():
            message = item
        case {"role": str(role), "content": str(content)} if len(item) == 2:
            message = Message(role, content)
        case _:
            raise ValueError(
                f"must return messages as tw.Message or {{'role': ..., 'content': ...}}, not {_shown(item)}"
            )
    if message.role not in _ROLES:
        raise ValueError(f"returned a message of role {message.role!r}: it must be {', '.join(_ROLES)}")
    return message


def tool_of(item: Any) -> Tool:
    """Return the tool that a function's signature or a mapping with a JSON schema describes."""
    if callable(item):
        described = function_tool(getattr(item, "__name__", type(item).__name__), item)
        return Tool(described.name, described.description, described.input_schema, SERVER, described.name)
    match item:
        case {"name": str(name), "parameters": Mapping() as schema, **rest} if rest.keys() <= {"description"}:
            try:
                written = json.dumps(dict(schema))
            except (TypeError, ValueError) as error:
                raise ValueError(f"returned tool {name!r}, whose parameters are not JSON: {error}") from None
            if why := _why_invalid(written):
                raise ValueError(f"returned tool {name!r}, whose parameters are no JSON schema: {why}")
            return Tool(name, str(rest.get("description", "")), schema, SERVER, name)
    raise ValueError(
        "must return functions or mappings with the keys name, description and parameters (a JSON schema), "
        f"not {_shown(item)}"
    )


@functools.lru_cache(maxsize=1024)
def _why_invalid(schema: str) -> str:
    return Schema("", json.loads(schema)).why_invalid


def tools_of(returned: Any, as_tool: Callable[[Any], Tool] = tool_of) -> tuple[Tool, ...]:
    """Return the tools of an episode; their names must differ."""
    if not isinstance(returned, Sequence) or isinstance(returned, str):
        raise ValueError(f"must return a list of tools, not {_shown(returned)}")
    tools = tuple(as_tool(item) for item in returned)
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"returned two tools of the name {twice[0]!r}")
    return tools


def step_of(returned: Any, num_calls: int) -> tuple[tuple[str | CallFailed, ...], bool]:
    """Return one observation per call, or one for a text (`num_calls` is 0), and whether it is over."""
    match returned:
        case (seen, done) if done in (True, False):
            pass
        case _:
            raise ValueError(f"must return (observation, done), not {_shown(returned)}")
    kinds = (str, CallFailed) if num_calls else (str,)
    observations = (seen,) if isinstance(seen, kinds) else seen
    if not isinstance(observations, Sequence) or not all(isinstance(one, kinds) for one in observations):
        what = "a text or tw.CallFailed, or a list of these" if num_calls else "a text"
        raise ValueError(f"must return an observation that is {what}, not {_shown(seen)}")
    if len(observations) != max(num_calls, 1):
        wanted = f"{num_calls} observations, one for each call" if num_calls else "one observation for a text"
        raise ValueError(f"must return {wanted}, not {len(observations)}")
    if not num_calls and not done and not any(isinstance(one, str) and one.strip() for one in observations):
        raise ValueError("must return a text for the model to read unless done is True")
    return tuple(observations), bool(done)


def answer_of(returned: Any) -> tuple[str, bool]:
    """Return the words about a mistake, empty for the usual ones, and whether the episode is over."""
    match returned:
        case None:
            return "", False
        case (str(words), done) if done in (True, False):
            return words, bool(done)
    raise ValueError(f"must return (observation, done) or None, not {_shown(returned)}")


def scores_of(returned: Any) -> dict[str, float | str]:
    """Return the parts of a score: numbers from 0 to 1, and texts that explain them."""
    if not isinstance(returned, Mapping):
        raise ValueError(f"must return parts such as {{'outcome': 1.0}}, not {_shown(returned)}")
    for name, value in returned.items():
        is_number = isinstance(value, Real) and 0 <= float(value) <= 1
        if not isinstance(name, str) or not (is_number or (isinstance(value, str) and name != "outcome")):
            raise ValueError(
                f"returned {name!r}: {_shown(value)}, and a part must be a number from 0 to 1, or a text "
                "that explains the others"
            )
    return {name: value if isinstance(value, str) else float(value) for name, value in returned.items()}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
