"""Tables break no name, even on a narrow terminal."""

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


@pytest.fixture(params=[20, 40, 60, 80, 200])
def console(request: pytest.FixtureRequest) -> Console:
    return Console(file=io.StringIO(), width=request.param, emoji=False, highlight=False)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_list_of_tools_breaks_no_name(console: Console) -> None:
    schema = {"properties": {"ticker_symbol": {}, "frequency": {"default": "daily"}}, "required": []}
    tool = Tool(NAME, "What it does. " * 9, schema, "server", NAME)
    exposure = {"server": Exposure("server", ())}
    print_listing(ToolListing({"server": [tool]}, {"server": "shared"}, exposure, {}), console)
    text = printed(console)
    assert all(name in text for name in (NAME, "ticker_symbol?", "frequency=daily"))
    assert all(len(line) <= console.width for line in text.splitlines() if "What it does" in line)


def test_a_memory_plan_breaks_no_key(console: Console) -> None:
    part = MemoryPart("engine: keys and values", 10**9, f"16,384 tokens at a time ({KEY})")
    print_plan(MemoryPlan("cpu", 1, None, (part,), None), console)
    assert part.name in printed(console)
    assert KEY in printed(console)


def test_an_evaluation_breaks_no_family_and_no_interval(console: Console) -> None:
    print_report(report_of("model", {f"{NAME}1": [True, False]}), console=console)
    assert any(line.startswith(NAME[:1]) for line in printed(console).splitlines())
    assert "success (95%)" in printed(console)
    assert "…" not in printed(console)
