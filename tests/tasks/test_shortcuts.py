"""Tasks whose reward is earned without doing them are named with their rows."""

from typing import Any

import pytest

from turnwise.rewards import is_success
from turnwise.tasks.load import PlacedTask
from turnwise.tasks.shortcuts import find_shortcuts
from turnwise.types import Answer, ExpectedWrite, FollowUp, Matcher, Message, StateProbe, Task, Tool, Truth

SCHEMA = {"type": "object", "properties": {"part": {"type": "string"}}}
STOCK = Tool("get_stock", "", SCHEMA, "parts", "get_stock", is_read_only=True)
PRICE = Tool("get_price", "", SCHEMA, "parts", "get_price", is_read_only=True)
ORDER = Tool("order", "", SCHEMA, "parts", "order", is_read_only=False)
NUMBER = Answer(63, Matcher.NUMERIC)


def warned(*truths: Truth, **more: Any) -> list[str]:
    prompt = (Message("user", "How many?"),)
    placed = [
        PlacedTask("my.jsonl", row, Task(f"t{row}", prompt, truth=truth, **more))
        for row, truth in enumerate(truths, start=1)
    ]
    return [str(found) for found in find_shortcuts(placed, (STOCK, PRICE, ORDER), is_success)]


@pytest.mark.parametrize(
    ("truth", "shortcut"),
    [
        (Truth(required_tools=("get_stock", "get_price")), "calling each tool once and giving up"),
        (Truth(min_tool_calls=7), "calling each tool once and giving up"),
        (Truth(answer=Answer(".+", Matcher.REGEX)), "giving up at once"),
        (Truth(answer=NUMBER), "the right answer earns the reward without a call"),
        (Truth(answer=Answer(["63", "sixty-three"], Matcher.ONE_OF)), "the right answer earns the reward"),
        (Truth(answer=Answer({"n": 63}, Matcher.JSON_SUBSET)), "the right answer earns the reward"),
    ],
)
def test_a_shortcut_that_earns_the_reward_is_named_with_the_row(truth: Truth, shortcut: str) -> None:
    [found] = warned(truth)
    assert found.startswith(f"my.jsonl: row 1: truth: {shortcut}")


def test_a_truth_that_asks_for_calls_and_their_results_has_no_shortcut() -> None:
    assert not warned(
        Truth(answer=NUMBER, required_tools=("get_stock",)),
        Truth(writes=(ExpectedWrite("order", {"part": "gear"}),)),
        Truth(probes=(StateProbe("get_stock", {}, contains="62"),)),
    )
    assert not warned(Truth(answer=NUMBER), conversation=(FollowUp("And now?", Truth(answer=NUMBER)),))


def test_many_rows_with_the_same_shortcut_are_one_warning() -> None:
    [found] = warned(*[Truth(required_tools=("get_stock",))] * 13)
    assert found.endswith("(also rows 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more)")


def test_a_tool_that_the_task_does_not_offer_is_not_called() -> None:
    assert not warned(Truth(required_tools=("get_stock", "order")), tools=("get_*",))
