"""Parse and check the chat completions of an OpenAI-compatible endpoint."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.system.lenient_json import hint_for
from turnwise.types import Finish, FormatError, FormatErrorKind, Parsed, Tool, ToolCall
from turnwise.types.protocols import EngineDown


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """One turn of the endpoint's model, with its token counts."""

    parsed: Parsed
    finish: Finish
    num_prompt_tokens: int
    num_completion_tokens: int


def tool_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Map our tool names to names the API allows: at most 64 letters, digits, `_` and `-`."""
    names = {tool.name: re.sub(r"[^a-zA-Z0-9_-]", "_", tool.name)[:64] for tool in tools}
    if len(set(names.values())) < len(names):
        raise ValueError(f"tools: {', '.join(sorted(names))} are not different enough for the endpoint")
    return names


def read_reply(content: bytes, names: Mapping[str, str]) -> EndpointReply:
    """Parse a chat completion; EngineDown if it is not one.

    `names`: the tool names sent to the endpoint, mapped to ours.
    """
    try:
        document = json.loads(content)
        choice = document["choices"][0]
        message = choice["message"]
        text, reasoning = message.get("content") or "", message.get("reasoning_content") or ""
        asked = message.get("tool_calls") or []
        if not (isinstance(text, str) and isinstance(reasoning, str) and isinstance(asked, list)):
            raise TypeError("content is no text, or tool_calls is no list")
        parsed = _parse(text, reasoning, [_call(call) for call in asked], names)
        finish = Finish.LENGTH if choice.get("finish_reason") == "length" else Finish.STOP
        usage = document.get("usage") or {}
        counts = [_count(usage.get(field)) for field in ("prompt_tokens", "completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EngineDown(f"the endpoint's reply is no chat completion: {error!r:.200}") from None
    if finish is Finish.LENGTH and (parsed.error or not parsed.calls):
        parsed = Parsed(text, reasoning, (), FormatError(FormatErrorKind.TRUNCATED, "the reply was cut off"))
    return EndpointReply(parsed, finish, *counts)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _call(sent: Any) -> tuple[str, str, str]:
    identity, name, arguments = sent["id"], sent["function"]["name"], sent["function"]["arguments"]
    if not (isinstance(identity, str) and isinstance(name, str) and isinstance(arguments, str)):
        raise TypeError("a tool call's id, name or arguments are no text")
    return identity, name, arguments


def _parse(
    text: str, reasoning: str, asked: Sequence[tuple[str, str, str]], names: Mapping[str, str]
) -> Parsed:
    calls = []
    for identity, name, arguments in asked:
        try:
            value = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            kind, words = FormatErrorKind.BAD_JSON, f"the arguments of {name} are not valid JSON"
            return Parsed(text, reasoning, (), FormatError(kind, words, hint_for(arguments), arguments))
        if not isinstance(value, dict):
            kind, words = FormatErrorKind.ARGUMENTS_NOT_OBJECT, f"the arguments of {name} are no object"
            return Parsed(text, reasoning, (), FormatError(kind, words, hint_for(arguments), arguments))
        calls.append(ToolCall(identity, names.get(name, name), value))
    if not calls and not text.strip():
        return Parsed(text, reasoning, (), FormatError(FormatErrorKind.EMPTY, "the reply is empty"))
    return Parsed(text, reasoning, tuple(calls))
