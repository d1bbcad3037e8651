"""Give every parser random and damaged inputs: it reads them, or raises an error that it declares.

    python benchmarks/fuzz.py [--cases 100000] [--seed 0] [--only NAME]

A case fails if it raises anything else or takes more than a second of CPU time. The same seed draws the same
cases, and a failure is printed with the seed that repeats it alone.
"""

import sys

sys.path.append(sys.path.pop(0))  # this folder goes last, because its mcp.py would shadow the SDK's `mcp`

import argparse
import contextlib
import logging
import signal
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.inputs import Inputs
from fuzzing.parsers import Parser, parsers

MAX_SECONDS = 1.0
"""CPU time of one case. Inputs are small, and most take a few microseconds."""
MAX_SHOWN = 3
"""Failures of one parser that are printed."""


@dataclass(slots=True)
class Outcome:
    """Results of one parser's cases."""

    num_cases: int = 0
    num_refused: int = 0
    """Cases that ended in a declared error."""
    slowest_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def fuzz(chosen: Mapping[str, Parser], num_cases: int, seed: int) -> dict[str, Outcome]:
    """Spread the cases over the parsers by their shares."""
    total = sum(parser.share for parser in chosen.values())
    outcomes = {}
    for name, parser in chosen.items():
        outcomes[name] = _fuzz_one(name, parser, max(1, round(num_cases * parser.share / total)), seed)
        print(f"{name}: {outcomes[name].num_cases:,} cases", file=sys.stderr, flush=True)
    return outcomes


def _fuzz_one(name: str, parser: Parser, num_cases: int, seed: int) -> Outcome:
    outcome = Outcome()
    for case_seed in _case_seeds(name, num_cases, seed):
        given = parser.draw(Inputs(case_seed))
        started = time.thread_time()
        try:
            with _ended_when_slow():
                parser.read(given)
        except parser.raises:
            outcome.num_refused += 1
        except _TooSlow:
            pass  # counted below, by its time
        except Exception:  # noqa: BLE001 - any other exception is a failure
            outcome.failures.append(
                f"case seed {case_seed}: {given!r:.300}\n{traceback.format_exc(limit=-4)}"
            )
        seconds = time.thread_time() - started
        outcome.num_cases += 1
        outcome.slowest_seconds = max(outcome.slowest_seconds, seconds)
        if seconds > MAX_SECONDS:
            outcome.failures.append(f"case seed {case_seed}: {seconds:.1f} s: {given!r:.300}")
    return outcome


class _TooSlow(BaseException):
    """A case that would never end; not an Exception, so that no parser catches it."""


@contextlib.contextmanager
def _ended_when_slow() -> Iterator[None]:
    """Raise _TooSlow after a few times the allowed CPU time, so that one case does not block the others."""

    def end(*_: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 3 * MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _case_seeds(name: str, num_cases: int, seed: int) -> Iterator[int]:
    """Seed of a parser's cases, independent of which other parsers run."""
    first = zlib.crc32(name.encode()) << 32 | seed << 64
    return iter(range(first, first + num_cases))


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return the results as a Markdown table."""
    rows = [
        f"| {name} | {found.num_cases:,} | {found.num_refused:,} | {found.slowest_seconds * 1000:.0f} ms "
        f"| {len(found.failures)} |"
        for name, found in outcomes.items()
    ]
    num_cases = sum(found.num_cases for found in outcomes.values())
    num_refused = sum(found.num_refused for found in outcomes.values())
    num_failures = sum(len(found.failures) for found in outcomes.values())
    head = ["| parser | cases | refused | slowest | failures |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*head, *rows, f"| **all** | {num_cases:,} | {num_refused:,} | | {num_failures} |"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--cases", type=int, default=100_000, help="number of cases over all parsers")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="only parsers whose name contains this")
    given = options.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as exits:
        found = {name: parser for name, parser in parsers(Path(folder), exits).items() if given.only in name}
        outcomes = fuzz(found, given.cases, given.seed)
    for name, outcome in outcomes.items():
        for failure in outcome.failures[:MAX_SHOWN]:
            print(f"--- {name}, {failure}")
    print(table(outcomes))
    sys.exit(any(outcome.failures for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
