"""The number that a computing tool answers with, and the form in which a question asks for it."""

import math
from collections.abc import Callable, Collection, Mapping

from turnwise.explore.first.answers import answer_of_value
from turnwise.explore.first.document import Document, Path, Scalar
from turnwise.explore.first.query import Form
from turnwise.tasks.proof.answers import is_clear
from turnwise.tasks.proof.case import Conclusion, Results

_MAX = 1e9
"""Larger results are no numbers that people ask for."""
_EXACT_DECIMALS = 2


def number_in(value: Scalar) -> float | None:
    """Return a finite number as it is or as a text, whole ones as integers; None if it is no number."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value) if len(str(value)) <= 40 else math.nan
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def answer_path(document: Document, given: Collection[float]) -> Path | None:
    """Return where the answer's only number is, apart from those that repeat an input; None if unclear.

    Numbers in lists are left out: servers repeat their input there.
    """
    found = [
        field.path
        for field in document.fields
        if (number := number_in(field.value)) is not None
        and not any(isinstance(part, int) for part in field.path)
        and number not in given
    ]
    return found[0] if len(found) == 1 else None


def form_of_number(number: float) -> Form | None:
    """Return how to ask for a number: as it is, or rounded if it has more decimals; None if neither is clear.

    A rounded number has at least three digits, so that it cannot be guessed.
    """
    if abs(number) >= _MAX or number in (0, 1):
        return None
    if round(number, _EXACT_DECIMALS) == number:
        return Form.NUMBER
    return Form.ROUNDED if abs(number) >= 1 and is_clear(number) else None


def concluding(read: Callable[[Results], float], form: Form) -> Callable[[Results], Conclusion]:
    """Return the conclusion of a plan whose answer is a number in this form."""

    def conclude(results: Results) -> Conclusion:
        number = read(results)
        if form_of_number(number) is not form:
            raise ValueError(f"{number} is not a {form.value}")
        return Conclusion(*answer_of_value(round(number, _EXACT_DECIMALS), form))

    return conclude


def read_number(document: Document, path: Path) -> float:
    """Return the number at a path; ValueError if there is none."""
    number = number_in(document.field(path))
    if number is None:
        raise ValueError(f"{document.field(path)!r} is no number")
    return number


def numbers_among(arguments: Mapping[str, object]) -> list[float]:
    """Return the numbers that a call was given."""
    found: list[float] = []
    for value in arguments.values():
        items = value if isinstance(value, list) else [value]
        found += [
            float(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)
        ]
    return found
