"""Ten things that people do with the page all day, from its first view on, with the number of clicks."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import bad, evaluate, good, held_out, log_step, new_run
from tests.dashboard.serving import Serve, Served, readout, texts
from tests.dashboard.test_runs import change_recipe
from turnwise.records.ending import Ending, How


class Hand:
    """Someone at the page; every click, choice, key and filled field counts."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.num_clicks = 0

    def open(self, served: Served) -> None:
        self._page.goto(served.url)
        self._page.wait_for_selector("#chart-success canvas")

    def click(self, selector: str) -> None:
        self._page.locator(selector).first.click()
        self.num_clicks += 1

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)
        self.num_clicks += 1

    def type(self, words: str) -> None:
        self._page.keyboard.type(words)
        self._page.keyboard.press("Enter")
        self.num_clicks += 1


@pytest.fixture
def hand(page: Any, served: Served) -> Iterator[Hand]:
    hand = Hand(page)
    hand.open(served)
    yield hand
    page.goto("about:blank")


def test_from_the_family_that_got_worst_to_a_guilty_transcript(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        held = held_out()
        evaluate(folder, "before", [*map(good, held)])
        evaluate(folder, "after", [good(each) if each.family == "quotes" else bad(each) for each in held])
    hand = Hand(page)
    hand.open(serve(folder.path))
    hand.click("#view-evaluations")
    page.wait_for_selector("#answer")
    assert "Worse: sums (n = 3)" in page.inner_text("#answer"), "the answer is there before a click on it"
    hand.click("#change [data-label='sums'] a")
    page.wait_for_selector("table#list tbody tr")
    hand.click("table#list tbody tr a")
    page.wait_for_selector("#verdicts")
    assert "answer ✗" in page.inner_text("#verdicts")
    assert hand.num_clicks == 3


def test_from_a_dip_in_a_familys_curve_to_its_failures(page: Any, hand: Hand) -> None:
    hand.click("#chart-families .readout [data-label='success/quotes'] a")
    page.wait_for_selector("table#list tbody tr")
    assert set(texts(page, "table#list tbody td:nth-child(2)")) == {"ace", "long"}
    assert hand.num_clicks == 1


def test_all_episodes_where_a_tool_timed_out(page: Any, hand: Hand) -> None:
    hand.click("#view-tools")
    page.wait_for_selector("table#tools")
    hand.click("#tools [data-tool='send'] a:has-text('timeout')")
    page.wait_for_selector("table#list tbody tr")
    assert len(texts(page, "table#list tbody tr")) == 2
    assert hand.num_clicks == 2


def test_a_figure_for_a_report(page: Any, hand: Hand) -> None:
    with page.expect_download() as saved:
        hand.click("#png-success")
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    assert hand.num_clicks == 1


def test_an_episode_by_words_in_a_tool_result(page: Any, hand: Hand) -> None:
    hand.press("/")
    page.wait_for_selector("#filter-search:focus")
    hand.type('"no such symbol"')
    page.wait_for_selector("table#list mark")
    assert "no such symbol" in page.inner_text("table#list tbody tr")
    assert hand.num_clicks == 2


def test_from_an_alarm_to_the_groups_of_its_step(page: Any, hand: Hand) -> None:
    hand.click("#view-health")
    page.wait_for_selector("#verdict")
    hand.click(".alarm[data-alarm='truncation'] a")
    page.wait_for_selector("table#list tbody tr")
    assert set(texts(page, "table#list tbody td:first-child")) == {"step 1"}
    assert hand.num_clicks == 2


def test_what_differs_between_two_recipes_and_whose_model_is_better(page: Any, hand: Hand) -> None:
    hand.click("#run-run")  # the newest run, `second`, is chosen at first
    hand.click("#view-runs")
    page.wait_for_selector("#between")
    assert texts(page, "#recipes [data-key='run.num_steps'] td") == ["run.num_steps", "4", "3"]
    assert texts(page, "#paired [data-label='all'] td")[1] == "0.0%"
    assert hand.num_clicks == 2


def test_where_the_members_of_a_group_part(page: Any, hand: Hand) -> None:
    hand.click("#view-trajectories")
    page.wait_for_selector("table#list tbody tr")
    hand.click("table#list tbody tr:has-text('ace') a")
    page.wait_for_selector("#verdicts")
    hand.click("a:has-text('compare its members')")
    page.wait_for_selector("#matrix")
    assert page.locator(".turn.parting").count() == 2
    assert hand.num_clicks == 3


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learning rates with three seeds each."""
    root = tmp_path_factory.mktemp("sweep")
    for number in range(6):
        rate, seed = (1e-5, 1e-4)[number % 2], number // 2
        with new_run(root, f"run-{number}") as folder:
            for step in range(4):
                log_step(folder, step)
        change_recipe(folder.path, {"seed": seed, "optimizer": {"learning_rate": rate}})
    return root


def test_two_learning_rates_over_three_seeds(page: Any, serve: Serve, sweep: Path) -> None:
    hand = Hand(page)
    hand.open(serve(*sorted(sweep.glob("run-*"))))
    hand.click("#view-runs")
    hand.click("#choose-all")
    page.wait_for_selector("#between")
    hand.click("#view-overview")
    page.wait_for_selector("#seeds")
    means = [
        f"mean of 3 seeds, optimizer.learning_rate = {rate}: success/rate" for rate in ("1e-05", "0.0001")
    ]
    assert sorted(readout(page, "success")) == sorted(means)
    assert hand.num_clicks == 3


def test_why_a_run_crashed(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path, "broken") as folder:
        log_step(folder, 0)
        logging.getLogger("turnwise").error("the server is gone")
        folder.end(Ending(How.CRASHED, "the server is gone"))
    hand = Hand(page)
    hand.open(serve(folder.path))
    hand.click("#runs a[title='open its log']")
    page.wait_for_selector("pre#log-lines")
    assert "the server is gone" in page.inner_text("#log-lines")
    assert hand.num_clicks == 1
