"""Find the one number that a message states, with its units; None if it hedges."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from turnwise.rewards.characters import compatible

MAX_CHARS = 20_000
"""The longest message that is read: an answer is short."""

MAX_NUMBERS = 300
"""A message with more numbers is taken to state none: it is a table, or a list of guesses."""

LABEL = re.compile(r"^(?:the )?(?:final )?(?:answer|result)(?: is)?(?:\s*[:=]\s*|\s+)(?=\S)", re.IGNORECASE)
"""Marks a line as the claim: `Answer: …`, `The final answer is …`."""

_BULLET = re.compile(r"^(?:[-+•·]\s+|[0-9]{1,3}[.)]\s+)(?=\S)")

SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SUFFIXES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9, "t": 10**12, "tn": 10**12}

_MAX_DIGITS = 300
"""A longer number is read as infinite: no answer has as many digits."""

UNITS = {
    "%": ("%", "percent", "per cent", "pct"),
    "percentage point": ("percentage points", "percentage point", "pp"),
    "basis point": ("basis points", "basis point", "bps", "bp"),
    "$": ("$", "us$", "usd", "dollars", "dollar", "us dollars", "us dollar"),
    "€": ("€", "eur", "euros", "euro"),
    "£": ("£", "gbp", "pounds", "pound"),
    "¥": ("¥", "jpy", "yen"),
    "₹": ("₹", "inr", "rupees", "rupee"),
    "cent": ("cents", "cent"),
    "x": ("x", "times"),
    "share": ("shares", "share"),
    "employee": ("employees", "employee"),
    "second": ("seconds", "second"),
    "minute": ("minutes", "minute"),
    "hour": ("hours", "hour"),
    "day": ("days", "day"),
    "week": ("weeks", "week"),
    "month": ("months", "month"),
    "year": ("years", "year"),
}
_UNIT_OF = {name: unit for unit, names in UNITS.items() for name in names}

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_ENDS = r"(?![0-9]|[.,][0-9])"
_DAY = rf"[0-9]{{1,2}}(?:st|nd|rd|th)?{_ENDS}"
_DATE = re.compile(
    rf"""(?<![0-9.,])(?:
        [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:t[0-9:.]+z?)?
      | [0-9]{{1,2}}/[0-9]{{1,2}}/(?:[0-9]{{4}}|[0-9]{{2}})
      | [0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:\ ?[ap]m\b)?
      | \b{_MONTH}\ {_DAY}(?:,?\ [0-9]{{4}}{_ENDS})?
      | {_DAY}\ (?:of\ )?{_MONTH}(?:,?\ [0-9]{{4}}{_ENDS})?
      | \b{_MONTH},?\ [0-9]{{4}}{_ENDS}
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Dates and times of day are ignored. A number hidden in one cannot match either, so hiding gains nothing."""

_DIGITS = re.compile(
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:e[-+]?[0-9]{1,3}(?![0-9a-z]))?|\.[0-9]+",
    re.IGNORECASE,
)
_CODE = r"(?:\b[a-z]{1,2}\$|[$€£¥₹]|\b(?:usd|eur|gbp|jpy|inr)\ ?)"
"""A currency before a number; `HK$` and `A$` are not `$`."""
_BEFORE = re.compile(
    rf"""(?P<opened>{_CODE}?\(\ ?)?
         (?P<minus>\b(?:minus|negative)\ |(?<![0-9a-z)%])[-–])?
         \+?(?P<currency>{_CODE})?\ ?(?P<inner>(?<=[$€£¥₹])[-–])?$""",
    re.IGNORECASE | re.VERBOSE,
)
_IS_NAME_BEFORE = re.compile(r"(?:[a-z_0-9]|[a-z][-–])$", re.IGNORECASE)
"""Text before digits that belong to a name: `Q3`, `S&P500`, `COVID-19`."""
_IS_NAME_AFTER = re.compile(r"[-–]?[a-z_]", re.IGNORECASE)
"""Text after digits that belong to a name: `3rd`, `10-K`, `52-week`."""
_SCALE_AFTER = re.compile(
    r"[ -]?(?P<word>thousand|million|billion|trillion)s?(?![a-z])"
    r"|(?P<glued>[kmbt]|[mbt]n)(?![a-z0-9])|[ ](?P<spaced>(?-i:[KMBT])|[mb]n)(?![a-z0-9])",
    re.IGNORECASE,
)
_UNIT_AFTER = re.compile(
    r" ?(?P<unit>"
    + "|".join(
        re.escape(name) + ("(?![a-z])" if name[-1].isalpha() else "")
        for name in sorted(_UNIT_OF, key=len, reverse=True)
    )
    + ")",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r" ?([a-z]+)[.!)]?$", re.IGNORECASE)


_REACH = 24
"""How many characters before a number may be its sign and currency: `negative US$ ` and a margin."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A number as a message states it, with every unit given for it."""

    value: int | float
    """An integer if the number is whole, however large."""
    units: frozenset[str]
    word: str = ""
    """The line's last word if it directly follows the number: possibly a unit that is not in `UNITS`."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A number and its span in the line, signs and units included."""

    stated: Stated
    start: int
    end: int


def canonical_unit(unit: str) -> str:
    """Return one spelling for all names of a unit: `USD`, `dollars` and `$` are the same."""
    name = unit.strip().casefold()
    return _UNIT_OF.get(name, name.removesuffix("s"))


def stated_number(text: str, *, given: str = "") -> Stated | None:
    """Return the number that a message commits to; it may repeat numbers of the question, `given`.

    A last line that is only a number, or `Answer: number`, is the claim, unless another such line claims a
    different number. In any other message all numbers must be equal.
    """
    if len(text) > MAX_CHARS:
        return None
    lines = lines_of(text)
    # Counted after normalisation, which turns the one character ½ into two numbers.
    if not lines or sum(len(_DIGITS.findall(line)) for line in lines) > MAX_NUMBERS:
        return None
    claims = [(is_labelled, stated) for line in lines for is_labelled, stated in _claim(line)]
    last = list(_claim(lines[-1]))
    if last:
        is_labelled = last[0][0]
        return _agreed([stated for label, stated in claims if label or not is_labelled])
    numbers = [number.stated for line in lines for number in _scan(line)]
    if _agreed(numbers) is None:
        asked = {_spelled(number.stated) for line in lines_of(given[:MAX_CHARS]) for number in _scan(line)}
        numbers = [stated for stated in numbers if _spelled(stated) not in asked]
    return _agreed(numbers)


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines in plain form: normalised characters, no markup, no bullets."""
    # Normalised, ² and ½ would become digits of the number before them; spaces make it ambiguous instead.
    text = "".join(f" {char} " if unicodedata.category(char) == "No" else char for char in text)
    text = compatible(text).replace("−", "-")
    text = re.sub(r"\\boxed\{([^{}]*)\}", r" \1 ", text)
    text = re.sub(r"\\([$%])", r"\1", text)
    text = re.sub(r"[*`]|(?<![a-zA-Z0-9])_+|_+(?![a-zA-Z0-9])", " ", text)
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    return [_BULLET.sub("", line) for line in lines if line]


def _claim(line: str) -> Iterator[tuple[bool, Stated]]:
    """Yield whether the line is labelled, and its number, if the line is nothing but a claim."""
    bare = LABEL.sub("", line)
    numbers = list(_scan(bare))
    if len(numbers) == 1 and not bare[: numbers[0].start].strip() and not bare[numbers[0].end :].strip(" .!"):
        yield bare != line, numbers[0].stated


def _agreed(numbers: Sequence[Stated]) -> Stated | None:
    """Return the number if all are equal, with the units of all of them; else None."""
    if len({_spelled(number) for number in numbers}) != 1:
        return None
    units = reduce(frozenset.union, (number.units for number in numbers))
    return Stated(numbers[-1].value, units, numbers[-1].word)


def _spelled(stated: Stated) -> str:
    # 14 digits of a fraction: one that was computed may be off in its last bits.
    return str(stated.value) if isinstance(stated.value, int) else f"{stated.value:.14g}"


def _scan(line: str) -> Iterator[_Found]:
    line = _DATE.sub(" | ", line)
    for match in _DIGITS.finditer(line):
        number = _read(line, match)
        if number is not None:
            yield number


def _read(line: str, digits: re.Match[str]) -> _Found | None:
    """Return the number at these digits with its sign, scale and units; None if they belong to a name."""
    left = line[max(0, digits.start() - _REACH) : digits.start()]
    before = _BEFORE.search(left)
    assert before is not None, "every part is optional"
    if _IS_NAME_BEFORE.search(left) and not before["currency"]:
        return None
    value, units = _value(digits[0]), set()
    position = digits.end()
    if scale := _SCALE_AFTER.match(line, position):
        name = (scale["word"] or scale["glued"] or scale["spaced"]).lower()
        value *= SCALES.get(name) or _SUFFIXES[name]
        position = scale.end()
    if unit := _UNIT_AFTER.match(line, position):
        units.add(_UNIT_OF[unit["unit"].lower()])
        position = unit.end()
    if _IS_NAME_AFTER.match(line, position):
        return None
    if currency := (before["currency"] or before["opened"] or "").strip("( ").lower():
        units.add(_UNIT_OF.get(currency, currency))
    is_in_brackets = bool(before["opened"]) and line.startswith(")", position)
    if is_in_brackets or before["minus"] or before["inner"]:
        value = -value
    word = _LAST_WORD.match(line, position)
    stated = Stated(_plain(value), frozenset(units), word[1].lower() if word else "")
    return _Found(stated, digits.start() - len(left) + before.start(), position + is_in_brackets)


def _value(digits: str) -> Fraction | float:
    return math.inf if len(digits) > _MAX_DIGITS else Fraction(digits.replace(",", ""))


def _plain(value: Fraction | float) -> int | float:
    if isinstance(value, float):
        return value
    return int(value) if value.denominator == 1 else float(value)


def is_close(value: float, truth: float, tolerance: float) -> bool:
    """Whether the value is within `tolerance`: relative to the truth, absolute for a truth within ±1."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    size = max(Fraction(1), abs(Fraction(truth)))
    # The slack is for rounding errors of floats: 0.31 - 0.3 is more than 0.01. Integers have none.
    slack = Fraction(0) if isinstance(value, int) and isinstance(truth, int) else Fraction(1e-12)
    return abs(Fraction(value) - Fraction(truth)) <= (Fraction(tolerance) + slack) * size
