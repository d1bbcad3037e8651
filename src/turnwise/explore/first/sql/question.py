"""A question about a database: the statement that answers it, its words, and how the answer is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnwise.explore.first.query import Form
from turnwise.explore.first.sql.result_rows import Cell, Row
from turnwise.explore.first.sql.schema import Column, Table, literal
from turnwise.explore.first.wording.names import quoted, with_article
from turnwise.types import Difficulty

Reading = Callable[[Sequence[Row]], Cell]

_COUNTED = "number of "


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """What is asked, as a noun phrase ("the number of books"), and the statement whose result answers it."""

    shape: str
    statement: str
    noun: str
    form: Form
    tables: tuple[Table, ...]
    read: Reading
    entities: tuple[str, ...] = ()
    asked: str = ""
    """The question itself where "What is …?" would be odd: "How many books are there?"."""
    difficulty: Difficulty = Difficulty.EASY


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of WHERE, and the words that follow the noun: "whose genre is “crime”"."""

    sql: str
    words: str
    relative: str = ""
    """The same words as a relative clause, to be joined to another one: "whose price is above 15"."""

    @property
    def clause(self) -> str:
        return self.relative or self.words


def only(rows: Sequence[Row]) -> Cell:
    """Return the only value of a result; ValueError if there are more rows or none."""
    if len(rows) != 1 or len(rows[0]) != 1:
        raise ValueError(f"{len(rows)} rows instead of one value")
    return rows[0][0]


def leading(place: int) -> Reading:
    """Return the reader of the row at a place of an ordered result: (answer, measure) rows, one row more.

    ValueError if its measure, or that of a row before or after it, is the same: the order is then by chance.
    """

    def read(rows: Sequence[Row]) -> Cell:
        measures = [row[-1] for row in rows[: place + 2]]
        is_clear = len(measures) == place + 2 and len(set(measures)) == len(measures)
        if not is_clear or any(measure is None for measure in measures):
            raise ValueError(f"the rows are not in a clear order: {measures!r}")
        return rows[place][0]

    return read


def form_of_column(column: Column) -> Form:
    if column.is_date:
        return Form.DATE
    return Form.NUMBER if column.is_numeric else Form.TEXT


def superlative(column: Column, *, is_highest: bool) -> str:
    """Return "the highest price", "the most pages", "the earliest order date"."""
    noun = column.noun
    if column.is_date:
        return f"the {'latest' if is_highest else 'earliest'} {noun}"
    if noun.startswith(_COUNTED):
        return f"the {'most' if is_highest else 'fewest'} {noun.removeprefix(_COUNTED)}"
    return f"the {'highest' if is_highest else 'lowest'} {noun}"


def equals(column: Column, value: Cell, *, of: str = "") -> Condition:
    """Return the condition that a column has a value."""
    owner = f"{of}." if of else ""
    return Condition(f"{owner}{column.sql} = {literal(value)}", f"whose {column.noun} is {quoted(value)}")


def compares(column: Column, value: Cell, *, is_above: bool) -> Condition:
    """Return the condition that a number or a date is above or below a value."""
    sql = f"{column.sql} {'>' if is_above else '<'} {literal(value)}"
    noun = column.noun
    side = ("after" if is_above else "before") if column.is_date else "above" if is_above else "below"
    if noun.startswith(_COUNTED):
        words = f"with {'more' if is_above else 'fewer'} than {value} {noun.removeprefix(_COUNTED)}"
    else:
        words = f"with {with_article(noun)} {side} {value}"
    return Condition(sql, words, f"whose {noun} is {side} {value}")


def of_row(column: Column, table: Table) -> str:
    """Return "title of the book", or "invoice" if a column is called like its table."""
    return column.noun if column.noun == table.noun else f"{column.noun} of the {table.noun}"


def the_row(table: Table, label: Column, value: Cell) -> str:
    """Return "the book whose title is “Emma”", "the order with the ID 12"."""
    if label.is_identifier and not isinstance(value, str):
        return f"the {table.noun} with the ID {value}"
    if label.noun == table.noun:
        return f"the {table.noun} {quoted(value)}"
    return f"the {table.noun} {equals(label, value).words}"
