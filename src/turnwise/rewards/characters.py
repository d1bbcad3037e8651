"""One form for characters that Unicode writes in several ways, in time linear in the text."""

import unicodedata

MAX_MARKS = 30
"""The most consecutive combining marks that are kept, as in Unicode's stream-safe format. Normalising sorts
each sequence of marks, in quadratic time. No word of any language has more than a few."""


def compatible(text: str) -> str:
    """Return the text in NFKC without format characters (category Cf)."""
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
