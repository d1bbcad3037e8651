"""Arithmetic between two numbers of two answers: difference, sum, ratio, percentage, change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turnwise.explore.first.query import Form
from turnwise.tasks.proof.answers import is_clear


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A computation over two numbers, and the noun phrase for it from two noun phrases."""

    value: Callable[[float, float], float]
    """ValueError if the numbers are degenerate: equal, zero, or a result that rounding makes unclear."""
    noun: Callable[[str, str], str]


def form_of_result(value: float) -> Form:
    """Return the form of a result: whole numbers stay whole, everything else is rounded."""
    return Form.NUMBER if isinstance(value, int) else Form.ROUNDED


def difference(first: float, second: float) -> float:
    """Return first − second, which is positive: the question asks by how much the first is larger."""
    if first <= second:
        raise ValueError(f"{first} is not larger than {second}")
    result = first - second
    return result if isinstance(result, int) else _clear(result)


def ratio(first: float, second: float) -> float:
    if second in (0, first):
        raise ValueError(f"{first} divided by {second} is degenerate")
    return _clear(first / second)


def percentage(first: float, second: float) -> float:
    """Return first as a percentage of second."""
    if second <= 0 or first <= 0 or first == second:
        raise ValueError(f"{first} as a percentage of {second} is degenerate")
    return _clear(100 * first / second)


def change(first: float, second: float) -> float:
    """Return the change from first to second in percent of first."""
    if first <= 0 or second <= 0 or first == second:
        raise ValueError(f"the change from {first} to {second} is degenerate")
    return _clear(100 * (second - first) / first)


def addition(first: float, second: float) -> float:
    """Return first + second."""
    result = first + second
    return result if isinstance(result, int) else _clear(result)


ARITHMETIC: Mapping[str, Arithmetic] = {
    "difference": Arithmetic(
        difference, lambda first, second: f"the difference between {first} and {second}"
    ),
    "addition": Arithmetic(addition, lambda first, second: f"the sum of {first} and {second}"),
    "ratio": Arithmetic(ratio, lambda first, second: f"{first} divided by {second}"),
    "percentage": Arithmetic(percentage, lambda first, second: f"{first} as a percentage of {second}"),
    "change": Arithmetic(change, lambda first, second: f"the change in percent from {first} to {second}"),
}


def _clear(value: float) -> float:
    if not is_clear(value):
        raise ValueError(f"{value} is too near to a rounding limit or to zero")
    return round(value, 2)
