"""Tables break no name, however narrow the terminal is."""

import io

import pytest
from rich.console import Console

from tests.evaluate.test_playing import report_of
from turnwise.commands.tools import ToolListing, print_listing
from turnwise.doctor.plan import print_plan
from turnwise.evaluate.report import print_report
from turnwise.mcp.exposure import Exposure
from turnwise.planning import MemoryPart, MemoryPlan
from turnwise.runtime.terminal import figure_table, reason_table, wrapped
from turnwise.types import Tool

WIDTHS = [20, 40, 60, 80, 200]
NAME = "analyze_financial_data_of_many_companies"
KEY = "update.tokens_per_microbatch"


def console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, emoji=False, highlight=False)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


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


@pytest.mark.parametrize("width", WIDTHS)
def test_the_listing_of_tools_breaks_no_name(width: int) -> None:
    schema = {"properties": {"ticker_symbol": {}, "frequency": {"default": "daily"}}, "required": []}
    tool = Tool(NAME, "What it does. " * 9, schema, "server", NAME)
    on = console(width)
    print_listing(
        ToolListing({"server": [tool]}, {"server": "shared"}, {"server": Exposure("server", ())}, {}), on
    )
    for name in (NAME, "ticker_symbol?", "frequency=daily"):
        assert name in printed(on)
    assert all(len(line) <= width for line in printed(on).splitlines() if "What it does" in line)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_memory_plan_breaks_no_key(width: int) -> None:
    part = MemoryPart("engine: keys and values", 10**9, f"16,384 tokens at a time ({KEY})")
    on = console(width)
    print_plan(MemoryPlan("cpu", 1, None, (part,), None), on)
    assert part.name in printed(on)
    assert KEY in printed(on)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_evaluation_breaks_no_family_and_no_interval(width: int) -> None:
    on = console(width)
    print_report(report_of("model", {f"{NAME}1": [True, False]}), console=on)
    lines = printed(on).splitlines()
    assert any(line.startswith(NAME[:1]) for line in lines)
    assert "success (95%)" in printed(on)
    assert "…" not in printed(on)
