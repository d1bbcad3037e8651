"""Random values and damaged copies of valid ones, drawn by hypothesis."""

import copy
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

Value = TypeVar("Value")

FRAGMENTS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "<|im_end|>", "[INST]"),
    *('{"name": "f", "arguments": {}}', '{"name": "f", "arguments": []}', '"name"', '"arguments"', "null"),
    *(
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        "\\u0000",
        "\\ud800",
        ",",
        ":",
        "```json\n",
        "```",
        "\\boxed{",
        "$",
        "%",
    ),
    *("½", "²", "ﷺ", "\u0301", "\u200d", "\ud800", "\ufeff", "\x00", "\x1b[31m", "\x1b]0;", "\u2028", "🙂"),
    *("0", "-1", "1e309", "-0.0", "NaN", "Infinity", "9" * 400, "9" * 5_000, "1,000", "true", "Answer: 3"),
    *("\n", "\r\n", "\r", "\t", " ", "\n\n", "data: ", "event: message\n", "id: 1\n", "retry: x\n", ": c\n"),
    *("${A}", "${A:-b}", "${input:x}", "${EPISODE_DIR}", "//", "/*", "*/", "#", "=", "[[a]]", "a.b.c", "'''"),
    *(
        '{"jsonrpc":"2.0","id":1,',
        '"method":"ping"',
        '"result":{}',
        '"error":{"code":1}',
        "$ref",
        "#/$defs/a",
    ),
)
"""What the grammars of our inputs are made of, and what is known to break parsers."""

NUMBERS: tuple[float, ...] = (
    *(0, 1, -1, 2**31, 2**53 + 1, -(2**63), 2**64, 10**400, 1e-320, -1e-320, 0.1, 1e308, 1e-7),
    *(float("inf"), float("-inf"), float("nan"), -0.0),
)

MAX_CHARS = 50_000
"""Of a text: how time grows with length is for tests/growth to show."""

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
"""Also with halves of characters, which no file in UTF-8 can hold."""
FRAGMENT = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.sampled_from(FRAGMENTS),
    st.builds(operator.mul, st.sampled_from(FRAGMENTS), st.integers(1, 60)),
    ANY_TEXT,
)


def texts(most: int) -> st.SearchStrategy[str]:
    return st.lists(FRAGMENT, max_size=most).map("".join)


LEAF = st.sampled_from(NUMBERS) | st.sampled_from((None, True, False, "")) | texts(4)


def _nested(leaf: Any, depth: int, is_object: bool) -> Any:
    for _ in range(depth):
        leaf = {"a": leaf} if is_object else [leaf]
    return leaf


VALUE: st.SearchStrategy[Any] = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(2), inner, max_size=3),
    max_leaves=8,
) | st.builds(_nested, LEAF, st.sampled_from((20, 70, 120, 400, 900)), st.booleans())
"""A JSON or TOML value; the deepest are near the recursion limit."""


class Inputs:
    """Draws the parts of one input."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def choice(self, values: Sequence[Value]) -> Value:
        return self._draw(st.sampled_from(list(values)))  # type: ignore[no-any-return]

    def chance(self, tenths: int) -> bool:
        return self.choice(range(10)) < tenths

    def text(self, most: int = 12) -> str:
        return self._draw(texts(most))  # type: ignore[no-any-return]

    def value(self) -> Any:
        return self._draw(VALUE)

    def damaged(self, sound: Any) -> Any:
        """A copy with a few parts replaced, dropped, duplicated or renamed."""
        whole = [copy.deepcopy(sound)]
        for _ in range(self.choice((1, 2, 3))):
            place, key = self._place(whole)
            self._damage(place, key)
        return whole[0] if whole else None

    def _place(self, whole: list[Any]) -> tuple[Any, Any]:
        """A container within the value, and one of its keys."""
        if not whole:
            whole.append({})
        place, key = whole, 0
        while isinstance(place[key], dict | list) and place[key] and self.chance(7):
            place = place[key]
            key = self.choice(list(place) if isinstance(place, dict) else range(len(place)))
        return place, key

    def _damage(self, place: Any, key: Any) -> None:
        kind = self.choice(range(6))
        if kind < 3:
            place[key] = self.value()
        elif kind == 3:
            del place[key]
        elif isinstance(place, dict):
            place[self.text(2) if kind == 4 else f"{key}{self.text(1)}"] = place[key]
        else:
            place.extend([place[key]] * self.choice(range(1, 40)))

    def document(self, sounds: Sequence[Any]) -> str:
        """A damaged value as JSON text; sometimes the text is damaged too."""
        value = self.damaged(self.choice(sounds))
        try:
            text = json.dumps(value, ensure_ascii=self.chance(5))
        except (ValueError, RecursionError):
            text = self.text()
        return text[:MAX_CHARS] if self.chance(6) else self.damaged_text(text)

    def damaged_text(self, text: str) -> str:
        for _ in range(self.choice((1, 2, 3))):
            start = self._draw(st.integers(0, len(text)))
            end = min(len(text), start + self.choice((0, 0, 1, 3, 20, 10_000)))
            text = text[:start] + self.text(2) + text[end:]
        return text[:MAX_CHARS]

    def damaged_bytes(self, content: bytes) -> bytes:
        """A copy with bytes changed, inserted and deleted, at small offsets."""
        changed = bytearray(content)
        for _ in range(self.choice(range(1, 6))):
            place = self._draw(st.integers(0, min(len(changed), 400)))
            kind = self.choice(range(4))
            if kind == 0:
                changed[place : place + 1] = self._draw(st.binary(min_size=1, max_size=1))
            elif kind == 1:
                changed[place:place] = encoded(self.text(2))
            elif kind == 2:
                del changed[place : place + self.choice((1, 2, 8, 1_000))]
            else:
                changed[:8] = self.choice((0, 1, len(content), 2**40, 2**63)).to_bytes(8, "little")
        return bytes(changed)

    def chunks(self, content: bytes) -> list[bytes]:
        """The content in chunks, down to single bytes."""
        size = self.choice((1, 2, 7, 100, 1 << 16))
        return [content[start : start + size] for start in range(0, len(content), size)]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
