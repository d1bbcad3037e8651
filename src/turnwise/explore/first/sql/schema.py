"""What is known about a database: tables, columns, sample rows, and which columns refer to which."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.sql.result_rows import Cell, Row
from turnwise.explore.first.wording.names import (
    field_noun,
    humanised,
    is_plain_name,
    is_quoted_noun,
    plural,
    singular,
)
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

MAX_LABEL_CHARS = 60
MAX_GROUPS = 20
"""Different values from which on a column is no category."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_RESERVED = word_set("""
    all and as asc between by case check column constraint create cross current_date default delete desc
    distinct drop else end except exists false fetch for foreign from full grant group having in index inner
    insert intersect into is join key left like limit natural not null offset on or order outer primary
    references right select set table then to true union unique update user using values view when where with
""")
_IDS = word_set("id ids uuid guid key pk sku isbn ean zip postcode phone")
_NOT_ADDED = word_set("""
    price rate percent percentage ratio share age year month day latitude longitude lat lon lng score rating
    rank level temperature temp average avg mean version number code
""")
"""Numbers whose sum means nothing."""
_NAMES = ("name", "title", "full_name", "label", "subject", "description")


def identifier(name: str) -> str:
    """Return a name as it stands in a statement: quoted unless it is a plain word in lower case."""
    if _PLAIN.fullmatch(name) and name not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: Cell) -> str:
    """Return a value as it stands in a statement; ValueError for values that no statement should hold."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no value to compare with")
    if isinstance(value, str):
        if not value.isprintable() or "\\" in value:  # MySQL reads a backslash as an escape
            raise ValueError(f"{value!r} is not plain text")
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its statistics over the whole table, and its values in the sample rows."""

    name: str
    num_values: int
    num_different: int
    samples: tuple[Cell, ...]

    @property
    def sql(self) -> str:
        return identifier(self.name)

    @property
    def known(self) -> tuple[Cell, ...]:
        return tuple(value for value in self.samples if value is not None)

    @property
    def is_numeric(self) -> bool:
        return bool(self.known) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.known
        )

    @property
    def is_whole(self) -> bool:
        return self.is_numeric and all(isinstance(value, int) for value in self.known)

    @property
    def is_date(self) -> bool:
        return bool(self.known) and all(
            isinstance(value, str) and _ISO_DATE.fullmatch(value) for value in self.known
        )

    @property
    def is_text(self) -> bool:
        return not self.is_date and bool(self.known) and all(isinstance(one, str) for one in self.known)

    @property
    def is_identifier(self) -> bool:
        return bool(_IDS.intersection(name_words(self.name)[-1:]))

    @property
    def is_quantity(self) -> bool:
        """Whether its numbers measure something: no identifiers and no flags."""
        return self.is_numeric and not self.is_identifier and self.num_different > 2

    @property
    def is_year(self) -> bool:
        return self.is_whole and all(isinstance(one, int) and 1500 <= one <= 2100 for one in self.known)

    @property
    def can_be_added(self) -> bool:
        return self.is_quantity and not self.is_year and not _NOT_ADDED.intersection(name_words(self.name))

    @property
    def is_category(self) -> bool:
        is_repeated = 2 <= self.num_different <= MAX_GROUPS and 2 * self.num_different <= self.num_values
        return self.is_text and is_repeated and not self.is_identifier

    @property
    def noun(self) -> str:
        return field_noun(self.name, is_date=self.is_date, is_count=self.is_whole)

    @property
    def is_sayable(self) -> bool:
        """Whether a question can name it: `in_stock` is no noun."""
        return is_plain_name(self.name) and not is_quoted_noun(self.noun)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and a sample of its rows."""

    name: str
    num_rows: int
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        return identifier(self.name)

    @property
    def noun(self) -> str:
        """What one row is called."""
        return singular(humanised(self.name))

    @property
    def nouns(self) -> str:
        return plural(self.noun)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(zip(*(column.samples for column in self.columns), strict=True))

    def unique(self) -> tuple[Column, ...]:
        """Return the columns whose values are all different and all there."""
        return tuple(one for one in self.columns if one.num_different == one.num_values == self.num_rows)

    def label(self) -> Column | None:
        """Return the column that people know a row by: a unique name or title, else a unique ID."""
        unique = [column for column in self.unique() if column.is_sayable]
        texts = [column for column in unique if column.is_text and _is_short(column.known)]
        by_name = sorted(texts, key=lambda column: _place(column.name))
        numbers = [column for column in unique if column.is_whole and column.is_identifier]
        found = [*(one for one in by_name if not one.is_identifier), *by_name, *numbers]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Reference:
    """A column of one table whose values are those of a unique column of another: an order's customer."""

    child: Table
    column: Column
    parent: Table
    key: Column

    @property
    def condition(self) -> str:
        return f"{self.child.sql}.{self.column.sql} = {self.parent.sql}.{self.key.sql}"


@dataclass(frozen=True, slots=True)
class SchemaCall:
    """A call that shows tables or columns; for calls that come before a query."""

    tool: Tool
    arguments: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Database:
    """The tables behind a tool that takes SQL in one of its parameters."""

    tool: Tool
    parameter: str
    tables: tuple[Table, ...]
    references: tuple[Reference, ...]
    listing: SchemaCall | None
    """A call that lists all tables."""
    descriptions: tuple[tuple[str, SchemaCall], ...]
    """By table: a call that shows its columns."""
    writer: tuple[Tool, str] | None = None
    """The tool that makes changes, and its parameter for the statement."""
    creator: tuple[Tool, str] | None = None
    """The tool that creates tables, and its parameter for the statement."""

    def described(self, table: Table) -> SchemaCall | None:
        return dict(self.descriptions).get(table.name)


def reference_candidates(tables: Sequence[Table]) -> list[Reference]:
    """Return columns that may refer to another table, by their names: `author_id` and `authors.id`."""
    found = []
    for child in tables:
        for column in child.columns:
            if not column.is_identifier:
                continue
            for parent in tables:
                key = _key_of(parent, column)
                if parent is not child and key is not None:
                    found.append(Reference(child, column, parent, key))
                    break
    return found


def _key_of(parent: Table, column: Column) -> Column | None:
    of_parent = f"{parent.noun.replace(' ', '_')}_".lower()
    for key in parent.unique():
        is_same = key.name == column.name and column.name.lower() != "id" and key.is_identifier
        owner = column.name.lower().removesuffix(key.name.lower())
        if is_same or (key.is_identifier and owner == of_parent and column.name != key.name):
            return key
    return None


def _is_short(values: Sequence[Cell]) -> bool:
    return all(0 < len(str(value)) <= MAX_LABEL_CHARS for value in values)


def _place(name: str) -> int:
    return _NAMES.index(name.lower()) if name.lower() in _NAMES else len(_NAMES)
