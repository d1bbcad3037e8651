"""Break special tokens and template tags in text that the model or a server wrote."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.models.chat.fast_tokenizer import fast_tokenizer

_SAFE_OPENERS = {"<": "‹", "[": "⁅"}
_MARKUP = re.compile(r"[<>\[\]|｜]")
_MAX_PASSES = 4


def clean_unicode(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, by question marks."""
    return text.encode("utf-8", "replace").decode()


class TextGuard:
    """Breaks special tokens and the template's tags in untrusted text."""

    def __init__(self, tokenizer: Any, tags: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._quick = fast_tokenizer(tokenizer)
        special = set(tokenizer.all_special_ids)
        tokens = {
            number: token.content
            for number, token in tokenizer.added_tokens_decoder.items()
            # Some vocabularies add runs of spaces or plain words as tokens; those are plain text.
            if token.special or number in special or _is_markup(token.content)
        }
        self.ids: frozenset[int] = frozenset(tokens) | special
        """The ids that untrusted text must never be encoded to."""
        self.strings: tuple[str, ...] = tuple(sorted({*tokens.values(), *tags} - {""}))
        pattern = "|".join(re.escape(string) for string in sorted(self.strings, key=len, reverse=True))
        self._strings = re.compile(f"(?={pattern})") if pattern else None

    def as_json(self) -> str:
        """The tokenizer as a tokenizer.json; empty if it has no Rust backend."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        return "" if backend is None else str(backend.to_str())

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def encode(self, text: str) -> list[int]:
        return list(self._quick.encode(text, add_special_tokens=False))

    def structure_of(self, ids: Sequence[int]) -> list[int]:
        """The special ids among `ids`, in order; content must not change them."""
        return [token for token in ids if token in self.ids]

    def defuse(self, text: str) -> str:
        """Break special tokens: `<|im_end|>` becomes `‹|im_end|>`, which is encoded with ordinary tokens."""
        text = self.defuse_strings(text)
        # Check the encoded ids, too: a normaliser may turn other characters into a special token, and a
        # character missing from the vocabulary is encoded as the unknown token.
        for _ in range(_MAX_PASSES):
            starts = self._special_starts(text)
            if not starts:
                return text
            text = _broken_at(text, starts, {})
        return ""

    def defuse_strings(self, text: str) -> str:
        """`defuse` without a look at the ids: enough for almost all texts, if the caller looks at them."""
        text = clean_unicode(text)
        if self._strings is None:
            return text
        return _broken_at(text, [match.start() for match in self._strings.finditer(text)], _SAFE_OPENERS)

    def defuse_json(self, value: Any) -> Any:
        """Return a JSON value with every key and string defused, in the same order."""
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
    """Replace the first character at each start by its harmless twin, or by `?` if it has none."""
    parts, position = [], 0
    for place in starts:
        if place < position:
            continue  # the character just replaced, or among the spaces before it
        start = place
        while start < len(text) - 1 and text[start].isspace():
            start += 1  # a token may include the spaces before it
        parts += [text[position:start], twins.get(text[start], "?")]
        position = start + 1
    return "".join([*parts, text[position:]])
