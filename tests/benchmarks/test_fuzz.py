"""Every parser reads random and damaged inputs or raises an error that it declares."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loading import loaded

NUM_CASES = 1_500
"""Over all parsers. `python benchmarks/fuzz.py` draws as many more as one has time for."""


@pytest.fixture(scope="module")
def fuzz() -> Any:
    return loaded("fuzz")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Servers' mistakes are logged, and here there are thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_input_makes_a_parser_raise_what_it_does_not_declare(fuzz: Any, tmp_path: Path) -> None:
    with contextlib.ExitStack() as exits:
        outcomes = fuzz.fuzz(fuzz.parsers(tmp_path, exits), NUM_CASES, seed=17)
    assert [failure for outcome in outcomes.values() for failure in outcome.failures] == []
    assert sum(outcome.num_cases for outcome in outcomes.values()) >= 0.9 * NUM_CASES


def test_an_error_that_is_not_declared_and_a_case_that_takes_too_long_are_failures(
    fuzz: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_key_error(given: str) -> None:
        raise KeyError(given)

    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.0)
    broken = fuzz.Parser(lambda inputs: inputs.text(), raise_key_error, (ValueError,))
    [outcome] = fuzz.fuzz({"broken": broken}, 3, seed=0).values()
    assert len([failure for failure in outcome.failures if "KeyError" in failure]) == 3
    assert len(outcome.failures) == 6
    declared = fuzz.Parser(lambda inputs: inputs.text(), raise_key_error, (KeyError,))
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 60.0)
    [outcome] = fuzz.fuzz({"declared": declared}, 3, seed=0).values()
    assert (outcome.num_cases, outcome.num_refused, outcome.failures) == (3, 3, [])


def test_the_same_seed_draws_the_same_cases(fuzz: Any) -> None:
    drawn: list[str] = []
    parser = fuzz.Parser(lambda inputs: inputs.text(), drawn.append)
    for seed in (5, 5, 6):
        fuzz.fuzz({"texts": parser}, 4, seed=seed)
    assert drawn[:4] == drawn[4:8] != drawn[8:]
