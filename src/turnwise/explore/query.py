"""A question about one document that has one short answer, and can be asked again of another document."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from turnwise.explore.document import Document, Scalar


class Form(StrEnum):
    """The form that an answer takes; the question says so."""

    NUMBER = "number"
    """A number as the tool states it."""
    ROUNDED = "rounded"
    """A computed number, rounded to two decimals."""
    TEXT = "text"
    DATE = "date"
    YES_NO = "yes_no"


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
    is_quantity: bool = False
    """Whether a number measures something, so that one may compute with it: a price, not a code."""
    is_additive: bool = False
    """Whether a sum of such numbers means something."""
