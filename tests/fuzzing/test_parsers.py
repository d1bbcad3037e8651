"""Every parser reads random and damaged inputs or raises an error that it declares."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.inputs import Inputs
from tests.fuzzing.parsers import Parser, parsers

NUM_CASES = 20
"""Of a parser with a share of 1."""
MAX_SECONDS = 3.0
"""CPU time of one case. Inputs are small, and most take a few microseconds."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of errors would be logged."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def every_parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Parser]]:
    with contextlib.ExitStack() as exits:
        yield parsers(tmp_path_factory.mktemp("page"), exits)


def test_no_input_makes_a_parser_raise_an_undeclared_error(every_parser: Mapping[str, Parser]) -> None:
    for parser in every_parser.values():
        _fuzz(parser)


def _fuzz(parser: Parser) -> None:
    @settings(
        max_examples=max(1, round(NUM_CASES * parser.share)),
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def reads(data: st.DataObject) -> None:
        drawn = parser.draw(Inputs(data.draw))
        started = time.thread_time()
        with contextlib.suppress(*parser.raises):
            parser.read(drawn)
        assert time.thread_time() - started < MAX_SECONDS

    reads()
