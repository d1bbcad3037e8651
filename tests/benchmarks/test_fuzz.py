"""Every parser reads random and damaged inputs or raises an error that it declares."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.loading import loaded

NUM_CASES = 1_500
"""Over all parsers. `python benchmarks/fuzz.py` draws more."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of errors would be logged."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_input_makes_a_parser_raise_an_undeclared_error(tmp_path: Path) -> None:
    fuzz = loaded("fuzz")
    with contextlib.ExitStack() as exits:
        outcomes = fuzz.fuzz(fuzz.parsers(tmp_path, exits), NUM_CASES, seed=17)
    assert [failure for outcome in outcomes.values() for failure in outcome.failures] == []
    assert sum(outcome.num_cases for outcome in outcomes.values()) >= 0.9 * NUM_CASES
