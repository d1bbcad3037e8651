"""Whether the model's final message states the expected answer."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turnwise.rewards.characters import compatible
from turnwise.rewards.exchanges import holds_throughout
from turnwise.rewards.numbers import LABEL, MAX_CHARS, SCALES, UNITS, canonical_unit, is_close, stated_number
from turnwise.system.bounded_regex import MAX_REGEX_CHARS, compiled, is_match
from turnwise.types import Answer, Matcher, Trajectory

MAX_DOCUMENTS = 50
"""The most places in a message that are tried as the beginning of JSON."""

_MARKUP = re.compile(r"</?(?:tool_call|tool_response|tool_result|think)\b|<\|")
"""Template markup: a message that contains it imitates another role and is not an answer."""


async def answer(trajectory: Trajectory) -> float:
    """Return 1 if the final message states the expected answer, or if the truth has none."""
    return float(holds_throughout(says_answer, trajectory))


def says_answer(trajectory: Trajectory) -> bool:
    truth = trajectory.task.truth.answer
    if truth is None:
        return True
    prompt = "\n".join(message.content for message in trajectory.task.prompt)
    try:
        return matches(truth, answer_text(trajectory), given=prompt)
    except ValueError as error:
        raise ValueError(f"task {trajectory.task.id!r}: {error}") from error


def answer_text(trajectory: Trajectory) -> str:
    """Return the final message's text; empty if the episode was cut off or the message is not an answer."""
    if not trajectory.final_text:
        return ""
    last = trajectory.turns[-1].parsed
    is_answer = not last.calls and last.error is None and not _MARKUP.search(last.text)
    return last.text.strip() if is_answer else ""


def matches(truth: Answer, text: str, *, given: str = "") -> bool:
    """Return whether a text states the answer; `given` is the question, whose numbers it may repeat."""
    text = text.strip()
    if not text or len(text) > MAX_CHARS:
        return False
    if truth.matcher is Matcher.NUMERIC:
        return _is_number(truth, text, given)
    return _MATCHERS[truth.matcher](truth.value, text)


def _is_number(truth: Answer, text: str, given: str) -> bool:
    value, tolerance = truth.value, truth.deviation
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(value, bool) or not is_finite:
        raise ValueError(f"answer.value must be a finite number for the numeric matcher, not {value!r}")
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"answer.tolerance must be 0 or more, not {tolerance!r}")
    if truth.unit.strip().casefold() in SCALES:
        raise ValueError(f"answer.unit {truth.unit!r} is a scale: give answer.value in full")
    stated = stated_number(text, given=given)
    if stated is None or not is_close(stated.value, value, tolerance):
        return False
    if not truth.unit.strip():
        return True
    unit = canonical_unit(truth.unit)
    units = set(stated.units)
    if stated.word and unit not in UNITS:
        units.add(canonical_unit(stated.word))
    return units <= {unit}


def normalise(text: str) -> str:
    """Return one form for texts that differ in case, spaces, punctuation, Unicode form or 1,000 for 1000."""
    text = compatible(compatible(text).casefold())
    text = re.sub(r"[−–—‒―]", "-", text)
    text = re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text)
    # Kept, because they carry meaning: a point before a digit, a sign before a number, % and $.
    text = re.sub(r"['’‘`]|\.(?![0-9])", "", text)
    text = re.sub(r"[,;:!?\"“”„«»()\[\]{}*_~…]", " ", text)
    text = re.sub(r"-(?!\.?[0-9]|[$€£¥])|(?<=\S)-", " ", text)
    return " ".join(text.split())


def _readings(text: str) -> Iterator[str]:
    """Yield the whole message, then its last line if only that line is labelled as the answer."""
    yield text
    lines = [line.strip(" \t*`") for line in text.splitlines() if line.strip()]
    labelled = [line for line in lines if LABEL.match(line)]
    if labelled and len(labelled) == 1 and labelled[0] == lines[-1]:
        yield LABEL.sub("", labelled[0]).strip(" \t*`")


def _is_exact(value: object, text: str) -> bool:
    return any(reading == _text(value).strip() for reading in _readings(text))


def _is_normalised(value: object, text: str) -> bool:
    wanted = normalise(_text(value))
    if not wanted:  # a value that is all punctuation would equal any other such text
        return _is_exact(value, text)
    return any(normalise(reading) == wanted for reading in _readings(text))


def _is_one_of(value: object, text: str) -> bool:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"answer.value must be a list of texts for the one_of matcher, not {value!r}")
    return any(_is_normalised(item, text) for item in value)


def _fits_regex(value: object, text: str) -> bool:
    pattern = _text(value)
    try:
        compiled(pattern)
    except ValueError as error:
        raise ValueError(f"answer.value is {error}") from error
    is_long = len(text) > MAX_REGEX_CHARS
    return not is_long and any(is_match(pattern, reading, is_whole=True) for reading in _readings(text))


def _has_json(value: object, text: str) -> bool:
    documents = list(_documents(text))
    return len(documents) == 1 and is_within(value, documents[0])


_OPENING = re.compile(r"[{\[]")
_FENCE_OPENING = re.compile(r"```[a-zA-Z]*[ \t]*")
_FENCE_CLOSING = re.compile(r"```[ \t]*")


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON in a message: in its code fences, else the whole text, else within the prose."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_constant=_refuse)
    blocks = list(_fenced(text))
    for block in blocks or [text]:
        try:
            yield decoder.decode(block.strip())
        except (ValueError, RecursionError):
            if not blocks:
                yield from _documents_in_prose(text, decoder)


def _fenced(text: str) -> Iterator[str]:
    """Yield the text between each opening fence and the next closing one; unclosed fences are ignored."""
    block: list[str] | None = None
    for line in text.split("\n"):
        if block is None:
            block = [] if _FENCE_OPENING.fullmatch(line) else None
        elif _FENCE_CLOSING.fullmatch(line):
            yield "\n".join(block)
            block = None
        else:
            block.append(line)


def _documents_in_prose(text: str, decoder: json.JSONDecoder) -> Iterator[Any]:
    position = 0
    for _ in range(MAX_DOCUMENTS):
        start = _OPENING.search(text, position)
        if start is None:
            return
        try:
            document, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.end()
        else:
            yield document


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # {"price": 1, "price": 2} would let a model state several values for one key.
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def is_within(wanted: object, found: object) -> bool:
    """Return whether `found` has every key and value of `wanted`; lists need equal length and order."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and is_within(value, found[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(wanted) == len(found)
            and all(map(is_within, wanted, found))
        )
    return is_same(wanted, found)


def is_same(wanted: object, found: object) -> bool:
    """Compare plain values: texts without surrounding spaces, numbers by value; True is not 1.

    Whole numbers must be equal; other numbers may differ by a rounding error.
    """
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        are_whole = wanted == wanted // 1 and found == found // 1
        return wanted == found or (
            not are_whole and math.isclose(_as_float(wanted), _as_float(found), rel_tol=1e-9)
        )
    if isinstance(wanted, str) and isinstance(found, str):
        return wanted.strip() == found.strip()
    return wanted is None and found is None


def _as_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # for example 10**400, which is valid JSON
        return math.nan


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"answer.value must be a text, not {value!r}")
    return value


_MATCHERS: Mapping[Matcher, Callable[[object, str], bool]] = {
    Matcher.EXACT: _is_exact,
    Matcher.NORMALISED: _is_normalised,
    Matcher.ONE_OF: _is_one_of,
    Matcher.REGEX: _fits_regex,
    Matcher.JSON_SUBSET: _has_json,
}
