"""A text as an answer: without Markdown, and only if a person would copy it as it is."""

import re

MAX_ANSWER_CHARS = 80

_PREFIX = re.compile(r"(?:#{1,6}|[-*+•]|\[[ xX]\]|>)\s+")
_LINK = re.compile(r"\[\[([^\[\]|]{1,80})(?:\|[^\[\]]{1,80})?\]\]|\[([^\[\]]{1,80})\]\([^()\s]{1,200}\)")
_EMPHASIS = re.compile(r"(\*\*|__|`)([^*_`]{1,80})\1")
_WORDS = re.compile(r"[^\W\d_]+(?:(?:[ ,'’&-]|\. )+[^\W\d_]+)*[.!?]?")
_MARKUP = re.compile(r"\[\[|\]\]|\]\(|\*\*|```|</?[a-zA-Z]|^#{1,6}\s|^[-*+•>]\s|^\||\$[.\[]|^[@+-]{2,}")
_CODE = re.compile(r"[{}<>;|\\=]|^\W*[\"'][\w ]+[\"']\s*:|[,{\[(]$|\w,\w.*\w,\w|^/|:$")
_UNREADABLE = re.compile(
    r"-?\d+(?:\.\d+)?[eE][+-]?\d+|[0-9a-fA-F]{16,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
_DEED = re.compile(
    r"\bsuccessfully\b|\bhas been \w+ed\b"
    r"|^(?:Exported|Created|Updated|Deleted|Removed|Saved|Wrote|Written|Added|Moved|Formatted|Loaded|Found) ",
)
"""What a tool says about what it did."""
_ADDRESS = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]{1,20}:/", re.IGNORECASE)
"""Addresses that programs make up for one another, like "file:///a"; people ask for web pages."""


def plain_text(text: str) -> str:
    """Return a text without Markdown around its words: "[[Larkspur]]" and "# Larkspur" are "Larkspur".

    A text of more than words is compared letter by letter, so it stays as it is.
    """
    bare = text.strip()
    for _ in range(3):  # a list item may hold a box to tick
        bare = _PREFIX.sub("", bare, count=1) if _PREFIX.match(bare) else bare
    bare = _LINK.sub(lambda found: found.group(1) or found.group(2), bare)
    bare = _EMPHASIS.sub(r"\2", bare).strip()
    return bare if bare != text and _WORDS.fullmatch(bare) else text


def is_answer_text(text: str) -> bool:
    """Return whether a text is short, one line, and neither markup, a hash, an address nor data."""
    short = plain_text(text.strip())
    return (
        0 < len(short) <= MAX_ANSWER_CHARS
        and short.isprintable()
        and short[0] not in "{["
        and not short.endswith(":")  # it introduces the answer
        and any(char.isalnum() for char in short)
        and not _DEED.search(short)
        and not (_UNREADABLE.fullmatch(short) or _ADDRESS.match(short) or _MARKUP.search(short))
    )


def is_sentence(line: str) -> bool:
    """Return whether a line of a text is prose: neither code, data nor a row of a table."""
    return (
        _CODE.search(line) is None and line.count("  ") == 0 and sum(map(str.isalpha, line)) > len(line) / 2
    )
