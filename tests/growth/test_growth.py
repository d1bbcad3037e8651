"""Doubling an input at most about doubles the CPU time that any of our parsers spends on it.

Time is this thread's own CPU time, so other processes do not count, and only ratios are compared. Growth is
measured over a fourfold input, where linear handling takes 4 times as long and quadratic handling 16 times.
"""

import gc
import logging
import time
from collections.abc import Callable, Iterator

import pytest

from tests.growth.handlers import HANDLERS, Handler
from tests.growth.inputs import INPUTS, Generator

MAX_GROWTH = 9.0
"""For four times the input: a factor of 3 for each doubling, where linear is 2 and quadratic 4."""
MEASURABLE_SECONDS = 0.002
"""Below this, overheads that do not grow hide the growth: the input is made longer."""
NEGLIGIBLE_SECONDS = 0.02
"""For the longest input that is ever handled: whatever the growth, there is nothing to mend."""
FIRST_CHARS = 500
NUM_TRIES = 6
"""The least of several measurements is compared: caches and interrupts only ever add time."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Collections and warnings would be measured too."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def seconds_of(handle: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    handle(text)
    return time.thread_time() - started


def growth(handler: Handler, generate: Generator, num_chars: int = FIRST_CHARS) -> tuple[float, int]:
    """How much longer four times the input takes, and the length of the longer one; 0 if too fast to tell."""
    while seconds_of(handler.handle, generate(num_chars)) < MEASURABLE_SECONDS:
        if num_chars * 4 >= handler.max_chars:
            if seconds_of(handler.handle, generate(handler.max_chars)) < NEGLIGIBLE_SECONDS:
                return 0.0, handler.max_chars
            break
        num_chars *= 2
    num_chars = min(num_chars, handler.max_chars // 4)
    short, long = generate(num_chars), generate(4 * num_chars)
    shorter = longer = float("inf")
    for _ in range(NUM_TRIES):
        shorter = min(shorter, seconds_of(handler.handle, short))
        longer = min(longer, seconds_of(handler.handle, long))
        if longer < MAX_GROWTH * shorter:
            break
    return longer / shorter, len(long)


@pytest.mark.parametrize("name", HANDLERS)
def test_handling_grows_linearly_with_the_input(name: str) -> None:
    handler = HANDLERS[name]
    handler.handle("")  # imports and caches
    grown = {kind: growth(handler, generate) for kind, generate in INPUTS.items()}
    too_fast = {kind: found for kind, found in grown.items() if found[0] > MAX_GROWTH}
    assert too_fast == {}


@pytest.mark.parametrize("kind", ["objects in a thought", "openings in a thought", "calls in a thought"])
def test_a_thought_full_of_calls_is_searched_in_linear_time(kind: str) -> None:
    """Here the quadratic part is cheap, and shows only in a text of hundreds of thousands of characters."""
    ratio, _ = growth(HANDLERS["hermes.read_turn"], INPUTS[kind], 1 << 18)
    assert ratio < MAX_GROWTH


def test_quadratic_handling_is_noticed() -> None:
    def quadratic(text: str) -> int:
        return sum(text.count(character) for character in text)

    ratio, _ = growth(Handler(quadratic, 1 << 16), INPUTS["letters"])
    assert ratio > MAX_GROWTH
