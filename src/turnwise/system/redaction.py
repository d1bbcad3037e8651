"""Find secrets in a text, however they are spelled there, and replace them."""

import base64
import bisect
import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

REDACTED = "[redacted]"
"""The replacement for a secret."""

_SEPARATORS = ("\\n", "\\r", "\\x", ":", ",", '"')
_GAPS = re.compile(rf"(?:{'|'.join(map(re.escape, _SEPARATORS))}|\s)+")
"""What may stand inside an encoded secret: line breaks, also escaped, and separators of hex dumps."""

_Span = tuple[int, int]


class Redaction:
    """Secrets, and every usual spelling of each: any case, quoted, escaped, hex, Base64, also in lines.

    A secret of letters only is also a word of a language: as such it is found between word boundaries only.
    """

    __slots__ = ("_encoded", "_plain", "_words")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # a secret that is part of REDACTED would be found in every replacement again
        wanted = {secret for secret in secrets if secret and _folded(secret) not in REDACTED}
        self._words = _longest_first(secret for secret in wanted if secret.isalpha())
        self._plain = _longest_first(
            spelling
            for secret in wanted
            for spelling in itertools.chain(_quoted(secret), _encodings(secret))
            if not (spelling == secret and secret.isalpha())
        )
        encoded = (_GAPS.sub("", _folded(spelling)) for secret in wanted for spelling in _encodings(secret))
        self._encoded = _longest_first(encoded)

    def __bool__(self) -> bool:
        return bool(self._words or self._plain)

    def redact(self, text: str) -> str:
        """Return the text with its secrets replaced, otherwise unchanged."""
        parts, end = [], 0
        for start, stop in _merged(self._spans(text)):
            parts += [text[end:start], REDACTED]
            end = stop
        return "".join([*parts, text[end:]]) if parts else text

    def is_in(self, text: str) -> bool:
        """Whether the text holds a secret."""
        return next(self._spans(text), None) is not None

    def _spans(self, text: str) -> Iterator[_Span]:
        """Yield where secrets are, in no order; spans may overlap."""
        if not self:
            return
        folded = _folded(text)
        for spelling in self._plain:
            yield from _occurrences(spelling, folded)
        for word in self._words:
            for start, stop in _occurrences(word, folded):
                if not (folded[start - 1 : start].isalnum() or folded[stop : stop + 1].isalnum()):
                    yield start, stop
        yield from self._spans_across_gaps(folded)

    def _spans_across_gaps(self, folded: str) -> Iterator[_Span]:
        closed = "".join(folded.split())  # five times as fast as the expression
        for separator in _SEPARATORS:
            closed = closed.replace(separator, "")
        if len(closed) == len(folded) or not any(spelling in closed for spelling in self._encoded):
            return
        closed = _GAPS.sub("", folded)
        spans = [span for spelling in self._encoded for span in _occurrences(spelling, closed)]
        # for each piece between gaps: where it starts without and with the gaps
        starts, offsets, num_removed = [0], [0], 0
        for gap in _GAPS.finditer(folded):
            num_removed += gap.end() - gap.start()
            starts.append(gap.end() - num_removed)
            offsets.append(num_removed)
        for start, stop in spans:
            first, last = (bisect.bisect_right(starts, place) - 1 for place in (start, stop - 1))
            yield start + offsets[first], stop + offsets[last]


def _occurrences(spelling: str, text: str) -> Iterator[_Span]:
    start = text.find(spelling)
    while start >= 0:
        yield start, start + len(spelling)
        start = text.find(spelling, start + len(spelling))


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Yield the spans in order, overlapping ones as one."""
    open_span: _Span | None = None
    for start, stop in sorted(spans):
        if open_span is not None and start < open_span[1]:
            open_span = (open_span[0], max(stop, open_span[1]))
            continue
        if open_span is not None:
            yield open_span
        open_span = (start, stop)
    if open_span is not None:
        yield open_span


def _longest_first(spellings: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({_folded(each) for each in spellings if each}, key=lambda each: (-len(each), each)))


def _folded(text: str) -> str:
    """The text in lower case, character by character: every character keeps its place."""
    # in lower case İ has two characters; which σ lower() chooses depends on what follows
    return text.replace("İ", "i").lower().replace("ς", "σ")


def _quoted(secret: str) -> Iterator[str]:
    """The secret itself, and as it is written in URLs, JSON and HTML."""
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    for safe in ("", "/"):
        quoted = quote(raw, safe=safe)
        yield quoted
        yield quoted.replace("%20", "+")
    for is_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
    yield html.escape(secret)


def _encodings(secret: str) -> Iterator[str]:
    """The secret in hex and in Base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield raw.hex()
    for num_before in range(3):
        # Base64 of a longer text with the secret inside: only the characters that depend on no other bits
        encoded = base64.b64encode(b"\0" * num_before + raw).decode()
        aligned = encoded[-(-num_before * 8 // 6) : (num_before + len(raw)) * 8 // 6]
        yield aligned
        yield aligned.replace("+", "-").replace("/", "_")
