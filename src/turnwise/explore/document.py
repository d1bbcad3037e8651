"""An answer of a tool as data: fields by path, tables by column, whatever its text format."""

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = str | int | float | bool
Path = tuple[str | int, ...]
"""Where a value is in a document: keys of objects and positions in lists."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a document."""

    path: Path
    value: Scalar

    @property
    def name(self) -> str:
        """The last key of the path: `price` of `("items", 0, "price")`; empty if it has no key."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


@dataclass(frozen=True, slots=True)
class Table:
    """A list of records with the same columns; a list of plain values has one column, `item`."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Scalar], ...]

    @property
    def name(self) -> str:
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


@dataclass(frozen=True, slots=True)
class Document:
    """The text of an answer, and the fields and tables that it holds."""

    text: str
    fields: tuple[Field, ...] = ()
    tables: tuple[Table, ...] = ()
    is_cut: bool = False
    """Whether the text was cut to the result budget, so that part of the answer is missing."""

    def field(self, path: Path) -> Scalar:
        """Return the value at a path; LookupError if there is none."""
        for field in self.fields:
            if field.path == path:
                return field.value
        raise LookupError(f"no field at {path!r}")

    def table(self, path: Path) -> Table:
        """Return the table at a path; LookupError if there is none."""
        for table in self.tables:
            if table.path == path:
                return table
        raise LookupError(f"no table at {path!r}")


def document_of(text: str) -> Document:
    """Read an answer's text: JSON, Markdown or CSV tables, `key: value` lines, or plain lines."""
    raise NotImplementedError
