"""The terminal report of an exploration: complete, short, and never wider than the terminal."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.explore import explored
from turnwise.explore.exploration import Exploration, Limit, ServerFinding
from turnwise.explore.report.findings import one_line, samples
from turnwise.explore.report.terminal import NUM_SAMPLES, print_exploration


def printed(exploration: Exploration, width: int = 100, next_command: str = "") -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, emoji=False, force_terminal=False)
    print_exploration(exploration, console=console, next_command=next_command)
    return out.getvalue()


def test_a_normal_exploration_is_reported_in_80_lines() -> None:
    text = printed(explored.shop(), width=80, next_command="turnwise train recipe.toml")
    assert len(text.splitlines()) <= 80
    assert "120 verified tasks from 3 servers in 84 s, seed 7" in text
    assert "10 of 14 tools reached, 9 in tasks; 1,017 calls, 2 links, 100 drafts rejected" in text
    assert "shop: 7 tools, 3 reached, 2 in tasks; 812 calls in 62 s" in text
    assert "3 not reached: pay, refund, invoice; needs a key" in text
    assert "1 answered, in no task: now; its answers differ between sessions" in text
    assert "mail: not explored, did not start: command not found" in text
    assert "turnwise train recipe.toml" in text


def test_names_of_tools_are_shown_although_the_reason_is_long() -> None:
    tools = tuple(
        explored.tool("shop", f"tool_{number}", num_answers=0, why_not="no call succeeded: " + "why " * 30)
        for number in range(9)
    )
    text = printed(replace(explored.empty(), servers=(ServerFinding("shop", tools, 9, 1.0),)), 80)
    words = " ".join(text.split())
    assert "9 not reached: tool_0, tool_1, tool_2, tool_3 and 5 more; no call succeeded: why" in words
    assert ("why " * 30).strip() in words, "nothing of the reason is cut off"


def test_rejections_start_with_the_most_frequent() -> None:
    text = printed(explored.shop())
    assert text.index("60 guessable, e.g. How many orders are open?") < text.index("31 the answer is in")


def test_tasks_are_counted_by_shape_difficulty_and_split() -> None:
    rows = {
        line.split()[0]: line.split()[1:] for line in printed(explored.shop()).splitlines() if line.strip()
    }
    assert rows["shape"] == ["tasks", "easy", "medium", "hard", "train", "validation", "test"]
    assert rows["chain"] == ["40", "0", "40", "0", "20", "10", "10"]
    assert rows["all"] == ["120", "40", "40", "40", "60", "30", "30"]


def test_ten_sample_tasks_have_their_plan_and_answer() -> None:
    text = printed(explored.shop(), width=120)
    assert "10. " in text
    assert "11. " not in text
    assert (
        "shop_list_orders() → shop_get_order(order_id=0) & shop_get_order(order_id=1); answer 1 (hard)"
        in text
    )


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for exploration in (explored.shop(), explored.hostile(), explored.empty()):
        assert max(cell_len(line) for line in printed(exploration, width).splitlines()) <= width


def test_hostile_texts_reach_the_terminal_without_control_characters() -> None:
    text = printed(explored.hostile())
    assert len(text.splitlines()) <= 300
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "[bold]markup[/bold]" in printed(explored.hostile(), width=300)


def test_an_exploration_that_found_nothing_says_what_to_try() -> None:
    text = printed(explored.empty(), next_command="turnwise train recipe.toml")
    assert "0 verified tasks from 0 servers" in text
    assert "turnwise train" not in text


@pytest.mark.parametrize(
    ("limit", "advice"), [(Limit.NONE, []), (Limit.TIME, ["--minutes"]), (Limit.TASKS, ["--tasks"])]
)
def test_only_the_limit_that_ended_it_is_to_be_raised(limit: Limit, advice: list[str]) -> None:
    text = printed(replace(explored.empty(), limit=limit))
    assert [words for words in ("--minutes", "--tasks") if words in text] == advice


def test_samples_take_turns_between_shapes() -> None:
    found = samples(explored.shop_tasks(), NUM_SAMPLES)
    assert len(found) == NUM_SAMPLES
    assert [task.family for task in found[:4]] == ["lookup", "chain", "compare", "lookup"]
    assert len({task.id for task in found}) == NUM_SAMPLES
    assert len(samples(explored.shop_tasks(1), NUM_SAMPLES)) == 3
    assert samples((), NUM_SAMPLES) == []


def test_a_long_text_is_cut_and_a_short_one_is_not() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("x" * 60) == "x" * 60
    assert one_line("x" * 61) == "x" * 59 + "…"
    assert one_line(" " * 10_000 + "x", 10).endswith("…")


def test_an_interrupted_exploration_says_so() -> None:
    assert "interrupted" in printed(replace(explored.shop(), was_interrupted=True))


def test_what_became_of_earlier_tasks_and_of_rewordings_is_reported() -> None:
    text = printed(
        replace(
            explored.shop(),
            num_kept=7,
            dropped={"the data has changed": 2},
            rewordings={"kept": 5, "too long": 1},
        )
    )
    assert "7 earlier tasks kept; 2 dropped: the data has changed" in text
    assert "writer: 5 kept; 1 too long" in text
