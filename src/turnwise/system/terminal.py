"""Output on terminals: consoles, plain tables that break no word, and text without control characters."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

ON_SCREEN = {"is_on_screen": True}
"""The `extra` of a log record that the terminal shows anyway: it goes to the file, not to stderr."""

_GAP = "  "
_INDENT = "    "


def figure_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Names left-aligned, figures right-aligned; columns that do not fit follow below, with repeated names.

    name    a    b        name    a
    first   1    2        first   1
                                        (narrower)
                          name    b
                          first   2
    """
    sizes = [max(len(cell) for cell in column) for column in zip(headers, *rows, strict=True)]
    for number, block in enumerate(_blocks(sizes, width)):
        if number:
            yield ""
        for row in (headers, *rows):
            figures = [row[column].rjust(sizes[column]) for column in block]
            yield _GAP.join([row[0].ljust(sizes[0]), *figures]).rstrip()


def _blocks(sizes: Sequence[int], width: int) -> list[list[int]]:
    """The columns after the first, in blocks that fit next to it; every block has at least one column."""
    blocks: list[list[int]] = [[]]
    for column in range(1, len(sizes)):
        needed = sizes[0] + sum(len(_GAP) + sizes[other] for other in (*blocks[-1], column))
        if blocks[-1] and needed > width:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def reason_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows of name, figure and text; the text wraps in its column, or goes below on a narrow terminal."""
    name_size, figure_size = (max(len(row[column]) for row in (headers, *rows)) for column in (0, 1))
    start = name_size + figure_size + 2 * len(_GAP)
    longest = max(len(word) for row in rows for word in row[2].split() or [""])
    if start + longest > width:
        for name, figure, text in rows:
            yield f"{name.ljust(name_size)}{_GAP}{figure.rjust(figure_size)}"
            yield from (_INDENT + line for line in wrapped(text, width - len(_INDENT)))
        return
    for name, figure, text in (headers, *rows):
        first, *more = wrapped(text, width - start) or [""]
        yield f"{name.ljust(name_size)}{_GAP}{figure.rjust(figure_size)}{_GAP}{first}".rstrip()
        yield from (" " * start + line for line in more)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters; a longer word gets its own line and is not broken."""
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)


def open_console(*, stderr: bool = False, quiet: bool = False) -> "Console":
    """A console for a command's lines, which prints plain text in a notebook.

    There, rich would put every line into its own output block, and a live panel would be repeated.
    """
    from rich.console import Console

    is_terminal = False if Console().is_jupyter else None  # ipykernel sets FORCE_COLOR; None: rich finds out
    return Console(stderr=stderr, quiet=quiet, emoji=False, force_jupyter=False, force_terminal=is_terminal)


def counted(number: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """`20 s`, `2 min`, `1 h 1 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def printable(text: str) -> str:
    """Replace non-printable characters except newline and tab, and lone surrogates, by U+FFFD."""
    return "".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in text)
