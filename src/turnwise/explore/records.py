"""What an exploration knows of its servers: calls, answers as relations, links, changes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from turnwise.types import StateProbe, Tool

Scalar = str | int | float | bool
Cell = Scalar | None
"""None where a row has no value in a column."""
Row = tuple[Cell, ...]
Path = tuple[str, ...]
"""Where a relation stands in an answer; the names of lists and objects, `*` for keys that are data."""
Kind = Literal["integer", "number", "boolean", "date", "text"]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a tool; equal to every call of the same tool with the same arguments."""

    server: str
    tool: str
    """The tool's name in the toolbox, `Tool.name`."""
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same for the same tool and arguments."""
        arguments = json.dumps(dict(self.arguments), sort_keys=True, ensure_ascii=False, default=str)
        return f"{self.tool} {arguments}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Column:
    """A named column of a relation; a key has different values in all rows."""

    name: str
    kind: Kind
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows that were read from one part of one answer, without volatile columns and echoes of arguments."""

    call: Call
    path: Path
    noun: str
    """The singular of what a row is, from the path, the tool or a title: `invoice`; may be empty."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    is_list: bool
    """Whether it is a list of things; else it has one row, the fields of one thing."""

    def place(self, name: str) -> int:
        """Return the number of a column."""
        return [column.name for column in self.columns].index(name)

    def values(self, name: str) -> tuple[Cell, ...]:
        """Return the cells of a column."""
        place = self.place(name)
        return tuple(row[place] for row in self.rows)

    def records(self) -> Iterator[dict[str, Scalar]]:
        """Yield the rows by column names, without missing cells."""
        for row in self.rows:
            named = zip(self.columns, row, strict=True)
            yield {column.name: cell for column, cell in named if cell is not None}


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to a call: its text, and its relations unless it is an error."""

    call: Call
    text: str
    is_error: bool
    """Whether it is a refusal: the server says so, or it answers as it does to values that do not exist."""
    relations: tuple[Relation, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it holds no rows that differ from what every call of the tool gets."""
        return not any(relation.rows for relation in self.relations)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a tool; nested ones have dotted paths, `items.name` or `items[].name` in lists."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """A column of the answers of a tool."""

    tool: str
    path: Path
    column: str


LinkKind = Literal["key", "filter", "new"]


@dataclass(frozen=True, slots=True)
class Link:
    """A parameter takes the values of a class of entities: columns whose rows agree.

    `key` looks up one thing; `filter` keeps the rows that have the value in `shown`; `new` names a thing that
    does not exist yet and then appears in the columns.
    """

    entity: str
    """The name of the class, from its column and relation."""
    columns: tuple[ColumnPlace, ...]
    """Where values of the class are found, the widest list first."""
    tool: str
    parameter: str
    kind: LinkKind
    companions: tuple[tuple[str, str], ...] = ()
    """Parameter and column: further arguments that must come from the same row (keys of several parts)."""
    prefix: str = ""
    """The parameter of the source call whose argument and a slash stand before the cell; empty if none."""
    shown: str = ""
    """For a filter: the column of the tool's own answer that has the value in every row."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Rows that a change removed from, and added to, what a reader answers at one path."""

    reader: Call
    path: Path
    noun: str
    columns: tuple[str, ...]
    gone: tuple[Row, ...]
    new: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A call that makes readers answer differently, with probes that hold after it and at no other time."""

    call: Call
    prelude: tuple[Call, ...]
    """Calls that a fresh session needs before it."""
    probes: tuple[StateProbe, ...]
    """They fail before, hold after, and fail after every mutation and every other writer."""
    differences: tuple[RowDifference, ...]
    mutations: tuple[Call, ...]
    """The call with an argument changed."""
    other_writers: tuple[Call, ...]
    """Other changes of the same server, on the same thing first."""
    landed: Mapping[str, ColumnPlace] = field(default_factory=dict)
    """By parameter: the column in which its value appears afterwards."""


Role = Literal["reader", "writer", "unreached"]


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What is known of one tool."""

    tool: Tool
    role: Role
    answers: tuple[Answer, ...] = ()
    """Stable answers with rows, of a reader; shortest recipes first."""
    preludes: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    """By the key of a call: what must be called before it in a fresh session, if anything."""
    is_pure: bool = False
    """Whether it computes: its answer follows from drawn arguments alone."""
    reason: str = ""
    """For an unreached tool: what was tried and what it answered."""
    num_calls: int = 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """A parameter that takes a query language."""

    tool: str
    parameter: str
    language: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the survey of one server took."""

    why_stopped: str
    """Why it stopped early; empty if it did not."""
    num_calls: int
    seconds: float
    is_limited: bool = False
    """Whether it was left alone because it asked for fewer calls."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All that is known of the servers when the calling ends."""

    tools: Mapping[str, ToolFacts]
    """By tool name."""
    links: tuple[Link, ...] = ()
    changes: tuple[Change, ...] = ()
    complete: frozenset[tuple[str, Path]] = frozenset()
    """By call key and path: the lists that hold every entity of their class that was seen anywhere."""
    dialects: tuple[Dialect, ...] = ()
    servers: Mapping[str, ServerFacts] = field(default_factory=dict)

    def readers(self, server: str = "") -> list[ToolFacts]:
        """Return the readers of one server, or of all."""
        facts = self.tools.values()
        return [one for one in facts if one.role == "reader" and server in ("", one.tool.server)]

    def answers(self) -> Iterator[Answer]:
        """Yield the stable answers of all readers."""
        for facts in self.readers():
            yield from facts.answers
