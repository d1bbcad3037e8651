"""Regular expressions of task files, matched against untrusted text in bounded time."""

import logging
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types; unlike `re` it supports a timeout

logger = logging.getLogger(__name__)

MAX_REGEX_CHARS = 2_000
REGEX_SECONDS = 0.25
"""Both limits bound the time that a careless pattern can take on a hostile text."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Compile a pattern; ValueError if it is not a regular expression."""
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def is_match(pattern: str, text: str, *, is_whole: bool) -> bool:
    """Return whether the pattern fits the whole text or a part of it; text over a limit fits none."""
    expression = compiled(pattern)
    if len(text) > MAX_REGEX_CHARS:
        return False
    match = expression.fullmatch if is_whole else expression.search
    try:
        return match(text, timeout=REGEX_SECONDS) is not None
    except TimeoutError:
        logger.warning("pattern %r took more than %s s on a text: not a match", pattern, REGEX_SECONDS)
        return False
