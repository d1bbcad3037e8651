"""Values that calls may be made with, each with its origin."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from turnwise.explore.document import Path


class Source(StrEnum):
    """Where a value was found."""

    SCHEMA = "schema"
    """An enum, a default, a constant or an example of an input schema."""
    DESCRIPTION = "description"
    """An example in the prose of a tool or a parameter."""
    CONFIG = "config"
    """An argument or a folder that stands in mcp.json."""
    USER = "user"
    """The user's own values."""
    ANSWER = "answer"
    """A field of an answer."""
    ERROR = "error"
    """A value that an error message names."""
    DRAWN = "drawn"
    """A number or a text drawn at random within the schema's bounds."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the name it was found under, and where."""

    value: Any
    name: str
    source: Source
    observation: int | None = None
    """ANSWER: the number of the observation whose answer holds it."""
    path: Path = ()
    """ANSWER: where in the document it is."""
