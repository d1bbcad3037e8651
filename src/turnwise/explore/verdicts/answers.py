"""The answer that a query is checked by, and whether a value is fit to be asked for."""

import json
import re
from decimal import Decimal

from turnwise.explore.algebra.query import Form
from turnwise.explore.records import Scalar
from turnwise.rewards.answer import matches, normalise
from turnwise.tasks.proof.answers import computed, looked_up
from turnwise.types import Answer, Matcher

MAX_ANSWER_CHARS = 80
MAX_DECIMALS = 12

_WORDS = re.compile(r"[^\W\d_]+(?:(?:[ ,'’&-]|\. )+[^\W\d_]+)*[.!?]?")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_GUESSABLE = (
    *("[]", "{}", "none", "null", "nil", "n/a", "nan", "unknown", "undefined", "empty"),
    *("yes", "no", "true", "false", "ok", "success", "done", "error", "failed"),
)


def answer_of_value(value: Scalar, form: Form) -> tuple[Answer, str]:
    """Return the answer for a value in a certain form, and the text that states it."""
    if form in (Form.NUMBER, Form.ROUNDED):
        number = _number(value)
        if form is Form.ROUNDED:
            return computed(number), f"{number:.2f}"
        if isinstance(number, int):
            return Answer(number, Matcher.NUMERIC, 0.0), json.dumps(number)
        return looked_up(number, decimals=_decimals(number)), _written(number)
    text = str(value).strip()
    # Case and punctuation carry meaning in paths, ids and code, and none in words.
    matcher = Matcher.NORMALISED if _WORDS.fullmatch(text) else Matcher.EXACT
    return Answer(text, matcher), text


def is_fit_answer(value: Scalar, question: str) -> str:
    """Return why a value is no answer to ask for, or an empty text if it is fit."""
    text = str(value).strip()
    if (
        isinstance(value, bool)
        or not text
        or text.casefold() in _GUESSABLE
        or value in (0, 1)
        or text in ("0", "1")
    ):
        return "the answer can be guessed"
    if len(text) > MAX_ANSWER_CHARS:
        return f"the answer is longer than {MAX_ANSWER_CHARS} characters"
    if not text.isprintable():
        return "the answer has several lines or control characters"
    if not isinstance(value, str) and _has_number(question, value):
        return "the answer is in the question"
    if isinstance(value, str) and _has_text(question, value):
        return "the answer is in the question"
    answer, stated = answer_of_value(value, Form.TEXT if isinstance(value, str) else Form.NUMBER)
    return "" if matches(answer, stated, given=question) else "the answer cannot be recognised in a message"


def _number(value: Scalar) -> int | float:
    if isinstance(value, bool):
        raise ValueError(f"value must be a number, not {value!r}")
    if isinstance(value, int | float):
        return value
    number = float(value.replace(",", ""))
    return int(number) if number.is_integer() and "." not in value else number


def _decimals(number: float) -> int:
    exponent = Decimal(repr(number)).as_tuple().exponent
    return min(MAX_DECIMALS, max(0, -exponent)) if isinstance(exponent, int) else 0


def _written(number: float) -> str:
    """Return a number without an exponent where that is short."""
    plain = format(Decimal(repr(number)), "f")
    return plain if len(plain) <= MAX_ANSWER_CHARS // 2 else json.dumps(number)


def _has_number(question: str, value: int | float) -> bool:
    return any(float(found.replace(",", "")) == value for found in _NUMBER.findall(question))


def _has_text(question: str, value: str) -> bool:
    wanted = normalise(value)
    if not wanted:
        return value.strip() in question
    return f" {wanted} " in f" {normalise(question)} "
