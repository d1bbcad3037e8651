"""Tables break no name, even on a narrow terminal."""

import io
from collections.abc import Callable
from functools import partial

import pytest
from rich.console import Console

from tests.run.test_playing import report_of
from turnwise.cli.tools import print_listing
from turnwise.mcp.listing import ToolListing
from turnwise.mcp.processes.exposure import Exposure
from turnwise.rollout.measure.report import print_report
from turnwise.run.checks.memory_table import print_plan
from turnwise.setup.memory import MemoryPart, MemoryPlan
from turnwise.system.terminal import figure_table, reason_table, wrapped
from turnwise.types import Tool

NAME = "analyze_financial_data_of_many_companies"
KEY = "update.tokens_per_microbatch"


def test_columns_that_do_not_fit_follow_below_with_repeated_names() -> None:
    rows = [("first", "1", "22"), ("second", "333", "4")]
    assert [*figure_table(("", "a", "b"), rows, 80)] == [
        "          a   b",
        "first     1  22",
        "second  333   4",
    ]
    narrow = ["          a", "first     1", "second  333", "", "         b", "first   22", "second   4"]
    assert [*figure_table(("", "a", "b"), rows, 12)] == narrow
    assert [*figure_table(("", "a", "b"), rows, 1)] == narrow, "at least one unbroken column"


def test_a_reason_is_wrapped_next_to_its_name_or_below_on_a_narrow_terminal() -> None:
    rows = [("weights", "1.19", "596.0 million, bfloat16"), ("activations", "2.00", "by some.long.key")]
    assert [*reason_table(("held", "GB", "by"), rows, 33)] == [
        "held           GB  by",
        "weights      1.19  596.0 million,",
        "                   bfloat16",
        "activations  2.00  by",
        "                   some.long.key",
    ]
    below = [*reason_table(("held", "GB", "by"), rows, 24)]
    assert below[-2:] == ["activations  2.00", "    by some.long.key"]


def test_a_word_longer_than_the_line_is_not_broken() -> None:
    assert wrapped("a very-long-word here", 4) == ["a", "very-long-word", "here"]


SCHEMA = {"properties": {"ticker_symbol": {}, "frequency": {"default": "daily"}}, "required": []}
TOOL = Tool(NAME, "What it does. " * 9, SCHEMA, "server", NAME)
LISTING = ToolListing({"server": [TOOL]}, {"server": "shared"}, {"server": Exposure("server", ())}, {})
PART = MemoryPart("engine: keys and values", 10**9, f"16,384 tokens at a time ({KEY})")
PLAN = MemoryPlan("cpu", 1, None, (PART,), None)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize(
    ("show", "names"),
    [
        (partial(print_listing, LISTING), [NAME, "ticker_symbol?", "frequency=daily"]),
        (partial(print_plan, PLAN), [PART.name, KEY]),
        (
            lambda console: print_report(report_of("model", {f"{NAME}1": [True]}), console=console),
            ["success (95%)"],
        ),
    ],
    ids=["tools", "memory plan", "evaluation"],
)
def test_no_name_is_broken(show: Callable[[Console], object], names: list[str], width: int) -> None:
    out = io.StringIO()
    show(Console(file=out, width=width, emoji=False, highlight=False))
    text = out.getvalue()
    assert all(name in text for name in names)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines() if "What it does" in line)
