"""Parse sampled token ids into a turn, by the Hermes format or by a renderer's own parser."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from turnwise.models.chat import hermes
from turnwise.models.chat.library import ToolCallParseStatus
from turnwise.models.chat.templates import Wire
from turnwise.system.lenient_json import hint_for
from turnwise.types import FormatError, FormatErrorKind, Parsed, ToolCall

_TAIL_TOKENS = 16
"""Enough of a prompt's end to find an open `<think>`, even in several tokens and before white space."""


class Reader(Protocol):
    """Parses a turn. Never raises, never invents a call. `tools` is for formats that do not quote strings."""

    def read(
        self, ids: Sequence[int], prompt_ids: Sequence[int], tools: Sequence[Wire], *, is_cut: bool
    ) -> Parsed: ...


class HermesReader:
    """Parses decoded text, so it does not matter how tags and JSON were split into tokens."""

    def __init__(self, tokenizer: Any, opener_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._opener_ids = opener_ids
        """The tokens that open a turn: a model that samples one is faking someone else's turn."""

    def read(
        self, ids: Sequence[int], prompt_ids: Sequence[int], tools: Sequence[Wire], *, is_cut: bool
    ) -> Parsed:
        tail = decode(self._tokenizer, prompt_ids[-_TAIL_TOKENS:])
        is_thinking = tail.rstrip().endswith("<think>")
        parsed = hermes.read_turn(decode(self._tokenizer, ids), starts_in_thought=is_thinking, is_cut=is_cut)
        if not is_cut and not self._opener_ids.isdisjoint(ids):
            return Parsed(parsed.text, parsed.reasoning, error=hermes.FAKED)
        return parsed


class LibraryReader:
    """Parses with a renderer's own parser, for formats other than Hermes."""

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer

    def read(
        self, ids: Sequence[int], prompt_ids: Sequence[int], tools: Sequence[Wire], *, is_cut: bool
    ) -> Parsed:
        try:
            response = self._renderer.parse_response(
                list(ids), tools=list(tools) or None, prompt_ids=list(prompt_ids)
            )
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as problem:
            # A third-party parser may raise any of these on hostile text; then there is no call.
            kind = type(problem).__name__
            return Parsed(
                error=FormatError(FormatErrorKind.BAD_JSON, f"The message could not be read ({kind}).")
            )
        calls: tuple[ToolCall, ...] = ()
        try:
            calls = tuple(_checked(number, call) for number, call in enumerate(response.tool_calls))
            error = _verdict(response, calls)
        except hermes.Malformed as problem:
            refused = [call for call in response.tool_calls if isinstance(call.arguments, str)]
            hint = hint_for(refused[0].arguments) if refused else ""
            error = replace(problem.error, hint=hint)
        if is_cut:
            error = hermes.TRUNCATED
        if error is not None:
            error = replace(error, written="\n".join(call.raw for call in response.tool_calls))
        text, thought = response.content or "", response.reasoning_content or ""
        return Parsed(text.strip(), thought.strip(), () if error else calls, error)


_KINDS = {
    ToolCallParseStatus.INVALID_JSON: (FormatErrorKind.BAD_JSON, "The call is not valid JSON."),
    ToolCallParseStatus.UNCLOSED_BLOCK: (FormatErrorKind.UNCLOSED, "The call was not closed."),
    ToolCallParseStatus.MISSING_NAME: (FormatErrorKind.BAD_CALL, "The call has no name."),
    ToolCallParseStatus.MALFORMED_STRUCTURE: (FormatErrorKind.BAD_CALL, "The call is malformed."),
}


def _checked(number: int, call: Any) -> ToolCall:
    # In a format without quotes, strings have status INVALID_JSON; the toolbox checks them by the schema.
    is_unquoted = call.status == ToolCallParseStatus.INVALID_JSON and isinstance(call.arguments, dict)
    if call.status in _KINDS and not (is_unquoted and call.name):
        raise hermes.Malformed(*_KINDS[call.status])
    name, arguments = hermes.check_call({"name": call.name, "arguments": call.arguments})
    return ToolCall(f"call_{number}", name, arguments)


def _verdict(found: Any, calls: Sequence[ToolCall]) -> FormatError | None:
    if "<tool_response>" in (found.content or ""):
        return hermes.FAKED
    if calls:
        return None
    if found.reasoning_complete is False:
        return FormatError(FormatErrorKind.UNCLOSED, "The thought was never closed.")
    return None if found.content and found.content.strip() else hermes.EMPTY


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The exact text of the ids; ids beyond the vocabulary (of a padded embedding) decode to nothing."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # transformers checks the type of every id first, which takes longer than decoding
        return str(backend.decode(list(ids), skip_special_tokens=False))
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
