"""Turn a server's reply into the text the model reads: flat, sanitised, redacted and cut to a budget."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as wire

from turnwise.system.redaction import Redaction

TokenCounter = Callable[[str], int]

DEFAULT_MAX_TOKENS = 2_000

# Control characters except tab and newline, the C1 set, and characters that reorder or hide text on screen.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]"
    r"|[\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Also invisible, but Persian, Hindi and emoji are spelled with them.
_JOINERS = re.compile(r"[\u200c\u200d\ufe00-\ufe0f]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\-_])")

# Tags that chat templates use as structure: a tool's output must never be able to open or close a turn.
_TEMPLATE_TAGS = re.compile(
    r"<(?=[|｜][^|｜<>\n]{1,64}[|｜]?>"  # Qwen, Llama, GPT-OSS; DeepSeek's wide bars; Gemma 4's <|turn>
    r"|[a-z_]{1,32}\|>"  # ... and its <turn|>
    r"|/?(?:tool_call|tool_response|tool_result|tools|think|function_calls?|function_results?|invoke|parameter"
    r"|arg_key|arg_value|s|bos|eos|pad|unk|sop|eop|start_of_turn|end_of_turn|unused\d+)\s*/?>"
    r"|<\s*/?SYS\s*>>|[be]os_token>)"
    r"|\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS"
    r"|CALL_ID|IMG_BREAK|IMG_END|BEGIN_AUDIO|TRANSCRIBE|gMASK|(?-i:ARGS|THINK|IMG|AUDIO))\])",
    re.IGNORECASE,
)
_SAFE_OPENERS = {"<": "‹", "[": "⁅"}


def estimate_tokens(text: str) -> int:
    """Bound the number of tokens if no tokenizer is given: 3 bytes of UTF-8 a token, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def render(result: wire.CallToolResult) -> str:
    """Return a result as text: text as it is, structured content only if there is no text, the rest as a
    placeholder."""
    parts = [_render_block(block) for block in result.content]
    if result.structured_content is not None and not any(_says_something(block) for block in result.content):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(part for part in parts if part)


def _says_something(block: Any) -> bool:
    match block:
        case wire.TextContent():
            return bool(block.text)
        case wire.EmbeddedResource(resource=wire.TextResourceContents() as text):
            return bool(text.text)
        case _:
            return False


def _render_block(block: Any) -> str:
    match block:
        case wire.TextContent():
            return block.text
        case wire.ImageContent() | wire.AudioContent():
            return f"[{block.type} {block.mime_type}, {len(block.data) * 3 // 4:,} bytes, not shown]"
        case wire.ResourceLink():
            return f"[resource link {block.name}: {block.uri}]"
        case wire.EmbeddedResource(resource=wire.TextResourceContents() as text):
            return f"[resource {text.uri}]\n{text.text}"
        case wire.EmbeddedResource(resource=wire.BlobResourceContents() as blob):
            kind = blob.mime_type or "application/octet-stream"
            return f"[resource {blob.uri}, {kind}, {len(blob.blob) * 3 // 4:,} bytes, not shown]"
        case _:
            return f"[{getattr(block, 'type', type(block).__name__)}, not shown]"


@dataclass(frozen=True, slots=True)
class Sanitiser:
    """Makes tool output safe for the prompt, the log and the terminal."""

    special_tokens: tuple[str, ...] = ()
    """The tokenizer's special tokens; the usual template tags are always defused."""
    redaction: Redaction = field(default_factory=Redaction)

    def clean(self, text: str) -> str:
        text = self.redaction.redact(text)
        text = _CONTROLS.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
        # Hidden characters may have split a secret or a tag, so both are searched for again.
        text = self.redaction.redact(text)
        joined = _JOINERS.sub("", text)
        if len(joined) < len(text) and self._is_unsafe(joined):
            text = self.redaction.redact(joined)
        text = _TEMPLATE_TAGS.sub(lambda match: _SAFE_OPENERS[match.group(0)], text)
        for token in filter(None, self.special_tokens):
            # Only the first character is consumed, so that overlapping tokens are all found.
            opener = re.escape(token[0]) + (f"(?={re.escape(token[1:])})" if len(token) > 1 else "")
            safe = _SAFE_OPENERS.get(token[0], f"{token[0]}\u00b7" if len(token) > 1 else "\u00b7")
            text = re.sub(opener, safe.replace("\\", r"\\"), text) if token in text else text
        return text

    def _is_unsafe(self, text: str) -> bool:
        has_token = any(token in text for token in filter(None, self.special_tokens))
        return has_token or _TEMPLATE_TAGS.search(text) is not None or self.redaction.is_in(text)


_MAX_GUESSES = 6
"""Sizes of a cut text guessed from its tokens so far; a text of very uneven tokens is then halved."""


def cut(text: str, max_tokens: int, count_tokens: TokenCounter = estimate_tokens) -> str:
    """Return the text if it fits, else its beginning and end around a mark that says how much is missing.

    The end matters: a traceback's last line says what went wrong. At most 1/64 of the budget stays unused.
    """
    # A token has at most a few dozen characters: never tokenise megabytes to learn that they are too many.
    start = text[: max_tokens * 8]
    num_tokens = count_tokens(start)
    if num_tokens <= 1.25 * max_tokens and len(start) < len(text) <= max_tokens * 64:
        start, num_tokens = text, count_tokens(text)
    if num_tokens <= max_tokens and len(start) == len(text):
        return text
    if count_tokens(_cut_to(text, 0)) > max_tokens:
        # Too small a budget for the full mark: only show that something is missing.
        return next((mark for mark in ("[cut]", "…") if count_tokens(mark) <= max_tokens), "")
    low, high = 0, min(len(text) - 1, max_tokens * 64)
    guess, num_guesses = max_tokens * len(start) // max(num_tokens, 1), 0
    while low < high:
        is_guessed = num_guesses < _MAX_GUESSES and low < guess <= high
        tried = guess if is_guessed else (low + high + 1) // 2
        num_guesses += is_guessed
        num_tokens = count_tokens(_cut_to(text, tried))
        guess = tried * max_tokens // max(num_tokens, 1)
        if num_tokens > max_tokens:
            high = tried - 1
            continue
        low = tried
        if max_tokens - num_tokens <= max_tokens // 64:
            break
    return _cut_to(text, low)


CUT_MARK = re.compile(r"\n\[\.\.\. [\d,]{1,20} of [\d,]{1,20} characters cut \.\.\.\]\n?")
"""What stands where a result was cut."""


def _cut_to(text: str, num_kept: int) -> str:
    num_tail = num_kept // 4
    num_head = num_kept - num_tail
    mark = f"\n[... {len(text) - num_kept:,} of {len(text):,} characters cut ...]\n"
    return text[:num_head] + mark + (text[-num_tail:] if num_tail else "")
