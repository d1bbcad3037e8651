"""Sets of words, written as text."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, which are separated by spaces."""
    return frozenset(text.split())
