"""One form for characters that Unicode writes in several ways, in time linear in the text."""

import unicodedata

MAX_MARKS = 30
"""Combining marks kept in a row, as in Unicode's stream-safe format. Normalising sorts every row of marks,
which takes quadratic time on a long row. No word of any language has more than a few."""


def compatible(text: str) -> str:
    """The text in NFKC without the characters that only control formatting."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", "".join(_few_marks(text)))
    return "".join(char for char in text if unicodedata.category(char) != "Cf")


def _few_marks(text: str) -> list[str]:
    kept, num_marks = [], 0
    for char in text:
        num_marks = num_marks + 1 if unicodedata.combining(char) else 0
        if num_marks <= MAX_MARKS:
            kept.append(char)
    return kept
