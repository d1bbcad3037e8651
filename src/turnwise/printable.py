"""Text that a terminal or a log can show: nothing in it acts on the terminal."""


def printable(text: str) -> str:
    """Replace every control character but newline and tab, and every half of a character, by U+FFFD."""
    return "".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in text)
