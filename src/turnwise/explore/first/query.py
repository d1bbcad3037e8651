"""A question about one document that has one short answer, and can be asked again of another document."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from turnwise.explore.first.document import Document, Scalar


class Form(StrEnum):
    """The form that an answer takes; the question says so."""

    NUMBER = "number"
    """A number as the tool states it."""
    ROUNDED = "rounded"
    """A computed number, rounded to two decimals."""
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    """A time of day."""
    YES_NO = "yes_no"


class Measure(StrEnum):
    """What a number measures, and so what people compute with it."""

    NONE = "none"
    """Nothing: an id, a code, a year."""
    COUNT = "count"
    """A number of things."""
    DETAIL = "detail"
    """A technical detail, such as a size in bytes."""
    RATE = "rate"
    """Something that can be compared and not added up, such as a temperature."""
    AMOUNT = "amount"
    """Something that can be compared and added up, such as a price."""


ADDITIVE = (Measure.COUNT, Measure.AMOUNT)
"""Numbers that people add up."""


@dataclass(frozen=True, slots=True)
class Query:
    """What an operation asks of a document.

    Query("count", read, 3, noun="the number of issues whose state is open", key="count/issues/state=open", …)
    """

    operation: str
    read: Callable[[Document], Scalar]
    """Compute the answer from a document; LookupError, TypeError or ValueError if it lacks what is needed."""
    value: Scalar
    noun: str
    """A noun phrase in plain English, without an article of its own only if none fits: "the stock level"."""
    key: str
    """The same for the same query of documents of one tool."""
    form: Form
    num_values: int = 1
    """How many values of the document the answer depends on: a count over 12 rows depends on 12."""
    field: str = ""
    """The name of the field or column that the answer is taken from as it is; empty if it was computed."""
    measure: Measure = Measure.NONE
    """What a number measures, which says what one may compute with it."""
