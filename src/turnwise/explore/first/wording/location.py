"""Where a noun is found: "the size of the file “a.txt”", "the number of orders for the customer “Ann”"."""

import re

from turnwise.explore.first.wording.call_phrase import CallPhrase
from turnwise.explore.first.wording.names import singular

WHOLE = ("the result", "the value", "the output", "the answer", "the response")
"""What a field is called that holds all there is to know: the question is then for the call itself."""
_PROPERTIES = tuple(
    f"the {word}" for word in ("title", "name", "size", "author", "type", "owner", "language")
)
"""What one says of a file as a whole: the size of the file, but the city in the file."""
_POSITION = re.compile(r"(?:the [\w ]+ of )?the (?:first|second|third|fourth|last) ")
_HOLDS = re.compile(r"the (?:\w+ )?(?:document|file|note|page|table|sheet|workbook|folder|directory)\b")
"""Things that others are in: the words in a document, but the fans of a user."""
_SEARCHING = "the results of searching "


def located(noun: str, phrase: CallPhrase) -> str:
    """Return the noun with its place; the call itself if the noun says no more than that."""
    described = phrase.described
    if is_said_by(noun, phrase):
        return noun
    is_whole = noun in WHOLE and (
        phrase.joint in ("", "according to") or described.startswith(("the result of ", "the results of "))
    )
    if is_whole or described.startswith(f"{noun} "):
        return described
    if phrase.rows and _mentions(noun, phrase.rows):
        is_placed = _POSITION.match(_unquoted(noun)) is not None
        return f"{noun} {phrase.rest or (f'in the list of {phrase.rows}' if is_placed else '')}".strip()
    if described.startswith(_SEARCHING) and "result" in noun:
        return f"{noun} when searching {described.removeprefix(_SEARCHING)}"
    return _joined(noun, phrase)


def is_said_by(noun: str, phrase: CallPhrase) -> bool:
    """Return whether a noun already says which call it is about."""
    return phrase.described.removeprefix(_SEARCHING) in noun


def _joined(noun: str, phrase: CallPhrase) -> str:
    described = phrase.place or phrase.described
    if phrase.described.startswith("the description") and re.search(r"\bentr(?:y|ies)\b", noun):
        described = phrase.described  # an entry of the thing itself is something else
    joint = phrase.joint or "according to"
    if joint in ("of", "in", "on") and noun in WHOLE and not described.startswith("the result"):
        return f"the content of {described}"
    if joint == "among" and not noun.endswith(("s", "file")):
        joint = "according to"
    if joint == "according to" and re.search(r"\bentr(?:y|ies)\b", noun):
        joint = "in"
    if joint == "in" and noun in _PROPERTIES and not described.startswith("the result"):
        joint = "of"
    elif joint == "of" and (
        noun.startswith("the value")
        or (noun.startswith("the number of ") and _HOLDS.match(described))
        or " of " in noun.removeprefix("the number of ")
        or noun.endswith(("empty", "”"))
    ):
        joint = "in"
    return f"{noun} {joint} {described}"


def _mentions(noun: str, rows: str) -> bool:
    """Return whether a noun names the rows that a call lists: "the price of the third order"."""
    words = _unquoted(noun)
    return any(re.search(rf"\b{re.escape(name)}\b", words) for name in (rows, singular(rows)))


def _unquoted(noun: str) -> str:
    return re.sub(r"“[^”]*”", "“”", noun)
