"""Random values and damaged copies of valid ones for the fuzzer, from one seeded generator."""

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

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


class Inputs:
    """Draws one input after another; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, most: int = 12) -> str:
        return "".join(self._fragment() for _ in range(self.random.randrange(most + 1)))

    def _fragment(self) -> str:
        kind = self.random.randrange(8)
        if kind < 5:
            return self.random.choice(FRAGMENTS)
        if kind == 5:
            return self.random.choice(FRAGMENTS) * self.random.randrange(1, 60)
        if kind == 6:
            return "".join(chr(self.random.randrange(32, 127)) for _ in range(self.random.randrange(1, 20)))
        return "".join(chr(self.random.randrange(0x110000)) for _ in range(self.random.randrange(1, 5)))

    def value(self, depth: int = 3) -> Any:
        """A random JSON or TOML value."""
        kind = self.random.randrange(9 if depth else 6)
        if kind < 2:
            return self.random.choice(NUMBERS)
        if kind == 2:
            return self.random.choice((None, True, False, "", [], {}))
        if kind < 6:
            return self.text(4)
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        if kind == 7:
            return {self.text(2): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return self.deep()

    def deep(self) -> Any:
        """A deeply nested list, near the recursion limit."""
        value: Any = self.value(0)
        is_object = self.random.random() < 0.5
        for _ in range(self.random.choice((20, 70, 120, 400, 900))):
            value = {"a": value} if is_object else [value]
        return value

    def damaged(self, sound: Any) -> Any:
        """A copy with a few parts replaced, dropped, duplicated or renamed."""
        whole = [copy.deepcopy(sound)]
        for _ in range(self.random.randrange(1, 4)):
            place, key = self._place(whole)
            self._damage(place, key)
        return whole[0] if whole else None

    def _place(self, whole: list[Any]) -> tuple[Any, Any]:
        """A random container within the value, and one of its keys."""
        if not whole:
            whole.append({})
        place, key = whole, 0
        while isinstance(place[key], dict | list) and place[key] and self.random.random() < 0.75:
            place = place[key]
            key = self.random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        return place, key

    def _damage(self, place: Any, key: Any) -> None:
        kind = self.random.randrange(6)
        if kind < 3:
            place[key] = self.value()
        elif kind == 3:
            del place[key]
        elif isinstance(place, dict):
            place[self.text(2) if kind == 4 else f"{key}{self.text(1)}"] = place[key]
        else:
            place.extend([place[key]] * self.random.randrange(1, 40))

    def document(self, sounds: Sequence[Any]) -> str:
        """A damaged value as JSON text; sometimes the text is damaged too."""
        value = self.damaged(self.random.choice(list(sounds)))
        try:
            text = json.dumps(value, ensure_ascii=self.random.random() < 0.5)
        except (ValueError, RecursionError):
            text = self.text()
        return text[:MAX_CHARS] if self.random.random() < 0.6 else self.damaged_text(text)

    def damaged_text(self, text: str) -> str:
        for _ in range(self.random.randrange(1, 4)):
            start = self.random.randrange(len(text) + 1)
            end = min(len(text), start + self.random.choice((0, 0, 1, 3, 20, 10_000)))
            text = text[:start] + self.text(2) + text[end:]
        return text[:MAX_CHARS]

    def damaged_bytes(self, content: bytes) -> bytes:
        """A copy with bytes changed, inserted and deleted, often at small offsets."""
        changed = bytearray(content)
        for _ in range(self.random.randrange(1, 6)):
            place = self.random.randrange(min(len(changed), 400) + 1) if changed else 0
            kind = self.random.randrange(4)
            if kind == 0:
                changed[place : place + 1] = bytes([self.random.randrange(256)])
            elif kind == 1:
                changed[place:place] = self.text(2).encode("utf-8", "surrogatepass")
            elif kind == 2:
                del changed[place : place + self.random.choice((1, 2, 8, 1_000))]
            else:
                changed[:8] = self.random.choice((0, 1, len(content), 2**40, 2**63)).to_bytes(8, "little")
        return bytes(changed)

    def chunks(self, content: bytes) -> list[bytes]:
        """The content in chunks of random size, down to single bytes."""
        size = self.random.choice((1, 2, 7, 100, 1 << 16))
        return [content[start : start + size] for start in range(0, len(content), size)]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
