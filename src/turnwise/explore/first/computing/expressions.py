"""Arithmetic expressions to calculate: as a formula, and in words."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turnwise.types import Difficulty


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula and a noun phrase for it: `4812 * 377 - 96`, "4,812 times 377, minus 96"."""

    formula: str
    words: str
    asked: str = ""
    """A whole question that the formula answers, such as a word problem; empty if "What is …?" is it."""
    difficulty: Difficulty = Difficulty.EASY

    @property
    def value(self) -> float:
        """The value of the formula, computed here: a calculator that truncates gives another one."""
        value: float = eval(self.formula, {"__builtins__": {}, "sqrt": math.sqrt})  # noqa: S307  (own text)
        return value


class Numbers:
    """Draws numbers from a range."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def whole(self, low: int, high: int) -> int:
        return low + int(self._chance.random() * (high - low + 1))

    def decimal(self, low: int, high: int) -> float:
        """Return a number with two decimals, the last of which is not zero."""
        return round(self.whole(low * 100, high * 100 - 1) // 10 / 10 + self.whole(1, 9) / 100, 2)

    def pick(self, *items: str) -> str:
        return items[self.whole(0, len(items) - 1)]


def said(number: float) -> str:
    """Return a number as people write it: 4812 as "4,812"."""
    return f"{number:,}"


def _product(draw: Numbers) -> Expression:
    first, second, third = draw.whole(1_000, 9_999), draw.whole(101, 999), draw.whole(11, 999)
    if draw.whole(0, 1):
        return Expression(f"{first} * {second} - {third}", f"{said(first)} times {second}, minus {third}")
    return Expression(f"{first} * {second} + {third}", f"{said(first)} times {second}, plus {third}")


def _bracketed(draw: Numbers) -> Expression:
    first, second, third = draw.whole(200, 9_999), draw.whole(200, 9_999), draw.whole(13, 99)
    if first > second and draw.whole(0, 1):
        return Expression(
            f"({first} - {second}) * {third}",
            f"the difference between {said(first)} and {said(second)}, multiplied by {third}",
        )
    return Expression(
        f"({first} + {second}) * {third}",
        f"the sum of {said(first)} and {said(second)}, multiplied by {third}",
    )


def _quotient(draw: Numbers) -> Expression:
    first, second, third = draw.whole(10_000, 99_999), draw.whole(13, 97), draw.whole(101, 999)
    if draw.whole(0, 1):
        return Expression(f"{first} / {second}", f"{said(first)} divided by {second}")
    return Expression(
        f"({first} + {third}) / {second}", f"the sum of {said(first)} and {third}, divided by {second}"
    )


def _power(draw: Numbers) -> Expression:
    base, exponent, third = draw.whole(12, 99), draw.whole(2, 4), draw.whole(101, 9_999)
    words = {2: "squared", 3: "cubed", 4: "to the power of 4"}[exponent]
    return Expression(f"{base} ** {exponent} + {third}", f"{base} {words}, plus {said(third)}")


def _root(draw: Numbers) -> Expression:
    first, second = draw.whole(1_000, 99_999), draw.whole(3, 99)
    return Expression(
        f"sqrt({first}) * {second}", f"the square root of {said(first)}, multiplied by {second}"
    )


def _percent(draw: Numbers) -> Expression:
    share, whole = draw.whole(3, 97), draw.whole(1_000, 99_999)
    return Expression(f"{whole} * {share} / 100", f"{share} percent of {said(whole)}")


def _decimals(draw: Numbers) -> Expression:
    first, second, third = draw.decimal(10, 99), draw.decimal(2, 99), draw.decimal(2, 99)
    return Expression(f"{first} * {second} + {third}", f"{first} times {second}, plus {third}")


def _nested(draw: Numbers) -> Expression:
    first, second, third = draw.whole(100, 999), draw.whole(100, 999), draw.whole(11, 99)
    fourth, fifth = draw.whole(101, 999), draw.whole(3, 29)
    return Expression(
        f"(({first} + {second}) * {third} - {fourth}) / {fifth}",
        f"the sum of {first} and {second}, multiplied by {third}, reduced by {fourth} "
        f"and then divided by {fifth}",
        difficulty=Difficulty.MEDIUM,
    )


def _story(draw: Numbers) -> Expression:
    """A word problem: the formula has to be found."""
    story = _STORIES[draw.whole(0, len(_STORIES) - 1)]
    formula, asked = story(draw)
    return Expression(formula, "", asked, Difficulty.MEDIUM)


def _shopping(draw: Numbers) -> tuple[str, str]:
    count, price = draw.whole(12, 89), draw.decimal(2, 19)
    paid = (int(count * price) // 50 + 1) * 50
    thing = draw.pick("notebooks", "light bulbs", "tickets", "mugs", "candles", "plates")
    return (
        f"{paid} - {count} * {price}",
        f"I buy {count} {thing} at {price} euros each and pay with {said(paid)} euros. "
        "How many euros do I get back?",
    )


def _crates(draw: Numbers) -> tuple[str, str]:
    crates, boxes, weight = draw.whole(12, 99), draw.whole(12, 48), draw.decimal(2, 9)
    return (
        f"{crates} * {boxes} * {weight}",
        f"A crate holds {boxes} boxes, and every box weighs {weight} kilograms. "
        f"How many kilograms do the boxes in {crates} crates weigh?",
    )


def _journey(draw: Numbers) -> tuple[str, str]:
    distance, hours, minutes = draw.whole(310, 980), draw.whole(3, 9), draw.whole(1, 11) * 5
    vehicle = draw.pick("car", "train", "truck", "bus")
    return (
        f"{distance} / ({hours} + {minutes} / 60)",
        f"A {vehicle} travels {distance} kilometres in {hours} hours and {minutes} minutes. "
        "What is its average speed in kilometres per hour?",
    )


def _discount(draw: Numbers) -> tuple[str, str]:
    price, share = draw.whole(150, 4_900), draw.whole(3, 45)
    thing = draw.pick("bicycle", "sofa", "camera", "laptop", "carpet")
    return (
        f"{price} * (100 - {share}) / 100",
        f"A {thing} costs {said(price)} euros. What does it cost after a discount of {share} percent?",
    )


def _shared_bill(draw: Numbers) -> tuple[str, str]:
    people, meals, drinks = draw.whole(3, 13), draw.decimal(90, 480), draw.decimal(20, 95)
    return (
        f"({meals} + {drinks}) / {people}",
        f"{people} friends share a bill of {meals} euros for meals and {drinks} euros for drinks equally. "
        "How many euros does everyone pay?",
    )


def _field(draw: Numbers) -> tuple[str, str]:
    length, width = draw.decimal(40, 190), draw.decimal(20, 90)
    return (
        f"2 * ({length} + {width})",
        f"A rectangular field is {length} metres long and {width} metres wide. "
        "How many metres of fence are needed to go around it?",
    )


def _savings(draw: Numbers) -> tuple[str, str]:
    start, months, rate = draw.whole(350, 4_900), draw.whole(7, 48), draw.decimal(25, 320)
    return (
        f"{start} + {months} * {rate}",
        f"I have {said(start)} euros and save {rate} euros every month. How many euros do I have "
        f"after {months} months?",
    )


_STORIES: tuple[Callable[[Numbers], tuple[str, str]], ...] = (
    _shopping, _crates, _journey, _discount, _shared_bill, _field, _savings,
)  # fmt: skip

EXPRESSIONS: Mapping[str, Callable[[Numbers], Expression]] = {
    "calculate_product": _product,
    "calculate_brackets": _bracketed,
    "calculate_quotient": _quotient,
    "calculate_power": _power,
    "calculate_root": _root,
    "calculate_percent": _percent,
    "calculate_decimals": _decimals,
    "calculate_nested": _nested,
    "word_problem": _story,
}
"""The kinds of expressions by the shape of their tasks."""
