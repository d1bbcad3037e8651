"""A question about one relation: which rows, and what is asked of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from turnwise.explore.records import Kind, Path, Relation, Scalar

Record = Mapping[str, Scalar]
Sign = Literal["is", "above", "below"]


class Form(StrEnum):
    """The form that an answer takes; the question says so."""

    NUMBER = "number"
    """A number as the tool states it."""
    ROUNDED = "rounded"
    """A computed number, rounded to two decimals."""
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row must have in one column."""

    column: str
    sign: Sign
    value: Scalar

    def holds(self, record: Record) -> bool:
        cell = record.get(self.column)
        if self.sign == "is":
            return cell == self.value and isinstance(cell, bool) is isinstance(self.value, bool)
        if not isinstance(cell, int | float) or not isinstance(self.value, int | float):
            return False
        return cell > self.value if self.sign == "above" else cell < self.value


@dataclass(frozen=True, slots=True)
class Query:
    """An operation over the rows at a path for which all conditions hold.

    Query("extreme", path, "invoice", "number", by="amount", function="highest") asks for the number of the
    invoice with the highest amount.
    """

    operation: str
    path: Path
    noun: str
    """What a row is called; empty if the answer does not say."""
    column: str = ""
    """The column that is asked for or added up; empty for a count."""
    kind: Kind = "text"
    """The kind of the column."""
    where: tuple[Condition, ...] = ()
    by: str = ""
    """The column that orders or groups the rows."""
    function: str = ""
    """`highest`, `lowest`, `total`, `average`, `most`, or empty."""
    by_kind: Kind = "text"

    @property
    def columns(self) -> set[str]:
        """The columns that the rows must have."""
        return {name for name in (self.column, self.by, *(one.column for one in self.where)) if name}

    @property
    def key(self) -> str:
        """The same for the same query."""
        conditions = sorted(f"{one.column} {one.sign} {one.value!r}" for one in self.where)
        return f"{self.operation} {self.function} {'/'.join(self.path)} {self.column} {self.by} {conditions}"


def by_group(
    relation: Relation, groups: Sequence[str]
) -> Iterator[tuple[tuple[Condition, ...], list[Record]]]:
    """Yield all rows, then those with each value of each of these columns, with the condition they meet."""
    yield (), list(relation.records())
    for name in groups:
        for value in dict.fromkeys(relation.values(name)):
            if value is not None:
                condition = Condition(name, "is", value)
                yield (condition,), [record for record in relation.records() if condition.holds(record)]


def chosen(query: Query, relations: Sequence[Relation]) -> list[Record]:
    """Return the records that the query is about; LookupError if no relation has its path and columns."""
    for relation in relations:
        if relation.path == query.path and query.columns <= {column.name for column in relation.columns}:
            return [record for record in relation.records() if all(one.holds(record) for one in query.where)]
    raise LookupError(f"nothing at {'/'.join(query.path)!r} has {sorted(query.columns)}")
