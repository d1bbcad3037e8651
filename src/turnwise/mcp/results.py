"""Takes a server's reply, gives the one text the model reads: flat, sanitised, redacted, cut to a budget."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import mcp_types as wire

TokenCounter = Callable[[str], int]

DEFAULT_MAX_TOKENS = 2_000

# Every control character but tab and newline, the C1 set, and the marks that reorder or hide text on screen.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
    r"|[\ud800-\udfff\U000e0000-\U000e007f]"
)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\-_])")

# What chat templates use as structure; a tool's output must never be able to open or close a turn.
_TEMPLATE_TAGS = re.compile(
    r"<(?=\|[^|<>\n]{1,64}\|>"
    r"|/?(?:tool_call|tool_response|tool_result|tools|think|function_calls?|function_results?|invoke|parameter"
    r"|s|bos|eos|pad|unk|start_of_turn|end_of_turn|unused\d+)\s*/?>)"
    r"|\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])",
    re.IGNORECASE,
)
_SAFE_OPENERS = {"<": "‹", "[": "⁅"}

_SECRET_NAME = re.compile(
    r"key|token|secret|passw|passphrase|auth|credential|cookie|session|signature|private|webhook|\bpat\b|_pat|dsn",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(r"^(?:[.~/].*|https?://[^@\s]*|[a-zA-Z]{0,15}|[\d.,:+-]*|true|false)$", re.DOTALL)
_MIN_SECRET_CHARS = 6


def estimate_tokens(text: str) -> int:
    """A bound for any tokenizer in use when none is given: 3 bytes of UTF-8 a token, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def render(result: wire.CallToolResult) -> str:
    """Text as it is; structured content only where no text says it; the rest as a marked placeholder."""
    parts = [_render_block(block) for block in result.content]
    if not any(parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))]
    return "\n".join(part for part in parts if part)


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
    """The tokenizer's own, besides the usual tags that are always defused."""
    secrets: tuple[str, ...] = ()
    """Values that must never be seen, longest first."""

    def clean(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[redacted]")
        text = _CONTROLS.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
        # Hidden characters may have split a secret or a tag; both are looked for again in what is left.
        for secret in self.secrets:
            text = text.replace(secret, "[redacted]")
        text = _TEMPLATE_TAGS.sub(lambda match: _SAFE_OPENERS[match.group(0)], text)
        for token in self.special_tokens:
            text = text.replace(token, _SAFE_OPENERS.get(token[0], token[0] + "\u00b7") + token[1:])
        return text


def secrets_of(blocks: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The secret values of env and header blocks, in the spellings they may come back in.

    A value is secret when its name says so, or when it is neither a path, a URL without a login, a number
    nor a plain word: a key under an unusual name must be caught, a path or a backend's name stay readable.
    """
    found: set[str] = set()
    for block in blocks:
        for name, value in block.items():
            is_named = bool(_SECRET_NAME.search(name))
            if len(value) < _MIN_SECRET_CHARS or (not is_named and _PLAIN_VALUE.match(value)):
                continue
            found.add(value)
            scheme, _, credential = value.partition(" ")
            if scheme.lower() in ("bearer", "basic", "token") and len(credential) >= _MIN_SECRET_CHARS:
                found.add(credential)
    spelled = {spelling for secret in found for spelling in _spellings(secret)}
    return tuple(sorted(spelled, key=lambda secret: (-len(secret), secret)))


def _spellings(secret: str) -> set[str]:
    raw = secret.encode()
    encoded = base64.b64encode(raw).decode().rstrip("=")
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], encoded, raw.hex()}


def cut(text: str, max_tokens: int, count_tokens: TokenCounter = estimate_tokens) -> str:
    """The text if it fits, else its beginning and end around a mark that says how much is missing.

    The end matters: a traceback's last line says what went wrong.
    """
    # A token is at most a few dozen characters long: never tokenise megabytes to learn they are too many.
    if len(text) <= max_tokens * 64 and count_tokens(text) <= max_tokens:
        return text
    low, high = 0, min(len(text), max_tokens * 64)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(_cut_to(text, middle)) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return _cut_to(text, low)


def _cut_to(text: str, num_kept: int) -> str:
    num_tail = num_kept // 4
    num_head = num_kept - num_tail
    mark = f"\n[... {len(text) - num_kept:,} of {len(text):,} characters cut ...]\n"
    return text[:num_head] + mark + (text[-num_tail:] if num_tail else "")
