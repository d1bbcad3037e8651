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
MEASURABLE_SECONDS = 0.001
"""What an input must take longer than an empty one, so that overheads do not hide the growth."""
NEGLIGIBLE_SECONDS = 0.02
"""If the longest input that is ever handled takes less, its growth does not matter."""
FIRST_CHARS = 100
NUM_TRIES = 6
"""The least of several measurements is compared: caches and interrupts only ever add time."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Garbage collections and log messages would be measured too."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def seconds_of(handle: Callable[[str], object], text: str) -> float:
    started = time.thread_time()
    handle(text)
    return time.thread_time() - started


def growth(handler: Handler, generate: Generator, num_chars: int = FIRST_CHARS) -> float:
    """How many times as long four times the input takes; 0 if the longest input takes too little time."""
    most = handler.max_chars // 4
    enough = seconds_of(handler.handle, "") + MEASURABLE_SECONDS
    short = generate(num_chars)
    shorter = seconds_of(handler.handle, short)
    while shorter < enough and num_chars < most:
        # To the length that linear handling would need, in steps that quadratic handling gets through too.
        factor = min(16.0, max(2.0, enough / max(shorter, 1e-9)))
        num_chars = min(most, int(num_chars * factor))
        short = generate(num_chars)
        shorter = seconds_of(handler.handle, short)
    long = generate(4 * num_chars)
    longer = seconds_of(handler.handle, long)
    if num_chars >= most and longer < NEGLIGIBLE_SECONDS:
        return 0.0
    shorter = min(shorter, seconds_of(handler.handle, short))
    for _ in range(NUM_TRIES):
        if longer < MAX_GROWTH * shorter:
            break
        shorter = min(shorter, seconds_of(handler.handle, short))
        longer = min(longer, seconds_of(handler.handle, long))
    return longer / shorter


@pytest.mark.parametrize("name", HANDLERS)
def test_handling_grows_linearly_with_the_input(name: str) -> None:
    handler = HANDLERS[name]
    handler.handle("")  # imports and caches
    grown = {kind: growth(handler, generate) for kind, generate in INPUTS.items()}
    too_fast = {kind: ratio for kind, ratio in grown.items() if ratio > MAX_GROWTH}
    assert too_fast == {}


@pytest.mark.parametrize("kind", ["objects in a thought", "openings in a thought", "calls in a thought"])
def test_a_thought_full_of_calls_is_searched_in_linear_time(kind: str) -> None:
    """Here the quadratic part is cheap, and shows only in a text of hundreds of thousands of characters."""
    assert growth(HANDLERS["hermes.read_turn"], INPUTS[kind], 1 << 18) < MAX_GROWTH


def test_quadratic_handling_is_noticed() -> None:
    def quadratic(text: str) -> int:
        return sum(text.count(character) for character in text)

    assert growth(Handler(quadratic, 1 << 16), INPUTS["letters"]) > MAX_GROWTH
