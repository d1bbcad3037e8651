"""Texts of any length, cut to what a page shows."""


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis: `most` characters in all."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
