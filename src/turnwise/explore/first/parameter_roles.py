"""What the parameters of a tool that changes something stand for: a thing that exists, a new one, a text."""

from enum import StrEnum

from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.tool_verbs import words_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.explore.survey.parameters import Kind, Parameter
from turnwise.types import Tool


class Role(StrEnum):
    """The part that a parameter plays in a change."""

    EXISTING = "existing"
    """It names something that is there: what is edited, moved, deleted."""
    NEW = "new"
    """It names something that is not there yet."""
    CONTENT = "content"
    """It is a text that is written."""
    OLD_TEXT = "old_text"
    """It is a text that stands in the thing that is changed."""
    CONFIRMATION = "confirmation"
    """It repeats another parameter."""
    OPTION = "option"
    """It says how: a choice, a number, a switch."""


_CREATES = word_set("create add write new insert save store register make put upsert append schedule book")
_REMOVES = word_set("delete remove clear drop")
_MOVES = word_set("move rename copy duplicate clone export convert merge transform")
_CONFIRMS = word_set("confirm confirmation confirmed")
_OLD = word_set("old from source src current existing original")
_NEW = word_set("new output")
_TARGETS = word_set("to destination dest dst target into")
"""New in a tool that moves or copies; in others (`from` and `to` of a relation) both ends exist."""
_SOUGHT = word_set("find search old target anchor match before after near header sought")
_SHORT_TEXTS = word_set("text string str phrase")
_CONTENTS = word_set("""
    content contents text body message description note notes summary comment observation observations
    paragraph paragraphs details insight replacement title_text desc string str
""")
_NAMES = word_set("name title subject heading label key")
_PATHS = word_set("path file filename filepath paths")
"""`name_words` writes "filename" as "file"."""
_IDENTIFIERS = word_set("id ids number index uuid")
_ROLE_WORDS = _OLD | _NEW | _TARGETS | _CONFIRMS


def creates(tool: Tool) -> bool:
    """Return whether a tool's name says that what it names does not exist before."""
    return bool(set(words_of(tool.server_tool)) & _CREATES)


def core_name(name: str) -> str:
    """Return a parameter's name without the words that only say its role: `newPath` is `path`."""
    return "_".join(word for word in words_of(name) if word not in _ROLE_WORDS)


def role_of(parameter: Parameter, tool: Tool, *, is_new: bool) -> Role:
    """Return a parameter's role; `is_new` says whether names without a hint are of new things."""
    words = set(words_of(parameter.name))
    if words & _CONFIRMS and parameter.kind is Kind.TEXT:
        return Role.CONFIRMATION
    if parameter.enum or parameter.kind in (Kind.BOOLEAN, Kind.NUMBER, Kind.INTEGER):
        is_id = parameter.kind is Kind.INTEGER and words & _IDENTIFIERS
        return Role.EXISTING if is_id else Role.OPTION
    return _role_of_text(parameter, tool, words, is_new=is_new)


def _role_of_text(parameter: Parameter, tool: Tool, words: set[str], *, is_new: bool) -> Role:
    verbs = set(words_of(tool.server_tool))
    is_sought = bool(words & _SOUGHT and words & _SHORT_TEXTS) and not words & _NEW
    if is_sought or (words == {"query"} and "replace" in verbs):
        return Role.OLD_TEXT
    if words & _NEW:
        return Role.CONTENT if words & (_SHORT_TEXTS | {"paragraphs", "content"}) else Role.NEW
    if words & _CONTENTS and not words & (_OLD | _TARGETS):
        return Role.EXISTING if verbs & _REMOVES else Role.CONTENT
    is_moved_to = bool(words & _TARGETS and verbs & _MOVES)
    return Role.NEW if is_moved_to or (is_new and _names_topic(parameter.name, tool)) else Role.EXISTING


def _names_topic(name: str, tool: Tool) -> bool:
    """Return whether a name is that of what the tool is about: the entity's in `create_entities`.

    In `add_observations`, `entityName` names something else, which is there already.
    """
    words = set(name_words(name))
    if set(words_of(name)) & _OLD:
        return False
    about = words - _NAMES - _PATHS
    is_name = bool(words & (_NAMES | _PATHS))
    return about <= set(name_words(tool.server_tool)) if about else is_name


def names_path(parameter: Parameter) -> bool:
    """Return whether a parameter's name says that its values are paths of files."""
    return bool(set(words_of(parameter.name)) & _PATHS)
