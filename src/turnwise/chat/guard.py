"""Break special tokens and template tags in text that the model or a server wrote."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.chat.fast_tokenizer import fast_tokenizer

_SAFE_OPENERS = {"<": "‹", "[": "⁅"}
_MARKUP = re.compile(r"[<>\[\]|｜]")
_MAX_PASSES = 4


def clean_unicode(text: str) -> str:
    """Half characters cannot be encoded; a question mark stands for each."""
    return text.encode("utf-8", "replace").decode()


class TextGuard:
    """Breaks special tokens and the template's tags in text that others wrote."""

    def __init__(self, tokenizer: Any, tags: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._quick = fast_tokenizer(tokenizer)
        special = set(tokenizer.all_special_ids)
        tokens = {
            number: token.content
            for number, token in tokenizer.added_tokens_decoder.items()
            # Some vocabularies add runs of spaces or plain words as tokens; those are only text.
            if token.special or number in special or _is_markup(token.content)
        }
        self.ids: frozenset[int] = frozenset(tokens) | special
        """What must never come out of text from outside."""
        self.strings: tuple[str, ...] = tuple(sorted({*tokens.values(), *tags} - {""}))
        found = "|".join(re.escape(string) for string in sorted(self.strings, key=len, reverse=True))
        self._strings = re.compile(f"(?={found})") if found else None

    def as_json(self) -> str:
        """The tokenizer as a tokenizer.json holds it; empty where it has no such form."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        return "" if backend is None else str(backend.to_str())

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def encode(self, text: str) -> list[int]:
        return list(self._quick.encode(text, add_special_tokens=False))

    def structure_of(self, ids: Sequence[int]) -> list[int]:
        """The special ids among `ids`, in order: the skeleton that no content may change."""
        return [token for token in ids if token in self.ids]

    def defuse(self, text: str) -> str:
        """`<|im_end|>` becomes `‹|im_end|>`, and is then spelled with ordinary tokens."""
        text = clean_unicode(text)
        if self._strings is not None:
            text = _broken_at(text, [match.start() for match in self._strings.finditer(text)], _SAFE_OPENERS)
        # A normaliser may make a special token of other characters, and a vocabulary that lacks a character
        # writes its unknown token, so the tokenizer has the last word.
        for _ in range(_MAX_PASSES):
            starts = self._special_starts(text)
            if not starts:
                return text
            text = _broken_at(text, starts, {})
        return ""

    def defuse_json(self, value: Any) -> Any:
        """A schema with every key and string defused, its order kept."""
        match value:
            case str():
                return self.defuse(value)
            case Mapping():
                return {self.defuse(str(key)): self.defuse_json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.defuse_json(item) for item in value]
            case _:
                return value

    def _special_starts(self, text: str) -> list[int]:
        if not self.ids.intersection(self.encode(text)):
            return []
        encoding = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        pairs = zip(encoding["input_ids"], encoding["offset_mapping"], strict=True)
        return sorted({start for token, (start, _) in pairs if token in self.ids})


def _is_markup(content: str) -> bool:
    return len(content) > 2 and bool(_MARKUP.search(content))


def _broken_at(text: str, starts: Sequence[int], twins: Mapping[str, str]) -> str:
    """The first character of each is replaced by its harmless twin, or by a question mark if it has none."""
    pieces, position = [], 0
    for found in starts:
        if found < position:
            continue  # inside what the last one replaced, or among the spaces before it
        start = found
        while start < len(text) - 1 and text[start].isspace():
            start += 1  # a token may swallow the spaces before it
        pieces += [text[position:start], twins.get(text[start], "?")]
        position = start + 1
    return "".join([*pieces, text[position:]])
