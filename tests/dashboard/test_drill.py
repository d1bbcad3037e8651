"""From a point of a curve to the episodes behind it: by click, by Enter and by the readout's links."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.dashboard.recorded import figures, learned
from tests.dashboard.serving import Served, look, texts, wait_for_steps
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.series import series

PLACE = """([id, x, y]) => {
  const { plot } = document.getElementById(id), { clientWidth, clientHeight } = plot.over;
  const inside = (at, most) => Math.min(Math.max(at, 3), most - 3);
  return [inside(plot.valToPos(x, "x"), clientWidth), inside(plot.valToPos(y, "y"), clientHeight)];
}"""


def open_chart(page: Any, served: Served, chart: str, **settings: object) -> None:
    page.goto("about:blank")
    look(page, served, "overview", **settings)
    page.wait_for_selector("main:not([data-drawn='1'])")  # the redraw that follows the first event
    page.wait_for_selector(f"#chart-{chart} canvas")


def click(page: Any, chart: str, x: float, y: float, **options: Any) -> None:
    left, top = page.evaluate(PLACE, [f"chart-{chart}", x, y])
    page.click(f"#chart-{chart} .u-over", position={"x": left, "y": top}, **options)


def opened(page: Any) -> dict[str, str]:
    """The settings of the list of episodes, without the runs."""
    page.wait_for_selector("main[data-view='trajectories'] #list")
    return {key: value for key, value in parse_qsl(page.url.partition("?")[2]) if key != "runs"}


STEP = {"run": "run", "source": "train"}
BEHIND = {
    ("success", 2, figures(2)["success/rate"]): {**STEP, "first": "2", "last": "2"},
    ("success", 0, 2 / 6): {"run": "run", "source": "before"},
    ("success", 3, 5 / 6): {"run": "run", "source": "after"},
    ("reward", 1, 0.25): {"run": "run", "source": "step-000002"},
    ("families", 1, figures(1)["success/quotes"]): {
        **STEP,
        "first": "1",
        "last": "1",
        "family": "quotes",
        "success": "0",
    },
}
"""By chart, step and value: the filters of the list that a click opens."""


@pytest.mark.parametrize("point", BEHIND)
def test_a_click_on_a_point_opens_its_episodes(
    page: Any, served: Served, point: tuple[str, float, float]
) -> None:
    open_chart(page, served, point[0])
    click(page, *point)
    assert opened(page) == BEHIND[point]
    assert page.locator("#list tbody tr").count() > 0
    page.click("#view-overview")
    wait_for_steps(page, "entropy", [0, 1, 2, 3])


def test_enter_and_the_links_of_the_readout_open_the_same_and_a_double_click_does_not(
    page: Any, served: Served
) -> None:
    open_chart(page, served, "entropy")
    page.focus("#chart-entropy")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert opened(page) == {**STEP, "first": "2", "last": "2"}
    open_chart(page, served, "families")
    page.hover("#chart-families .u-over", position={"x": 5, "y": 60})
    assert page.inner_text("#chart-families .step") == "step 0"
    page.focus("#chart-families .readout a")
    page.keyboard.press("Enter")
    assert opened(page) == {**STEP, "first": "0", "last": "0", "family": "quotes", "success": "0"}
    assert {row.partition("\t")[0] for row in texts(page, "#list tbody tr")} == {"step 0"}
    open_chart(page, served, "entropy", first=1, last=2)
    wait_for_steps(page, "entropy", [1, 2])
    page.dblclick("#chart-entropy .u-over")
    wait_for_steps(page, "entropy", [0, 1, 2, 3])
    assert page.get_attribute("main", "data-view") == "overview"


def test_a_tap_moves_the_readout_and_opens_nothing(browser: Any, served: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    open_chart(page, served, "entropy")
    left, top = page.evaluate(PLACE, ["chart-entropy", 1, learned(1)["entropy/mean"]])
    page.tap("#chart-entropy .u-over", position={"x": left, "y": top})
    page.wait_for_selector("#chart-entropy .step:text-is('step 1')")
    page.wait_for_timeout(400)
    assert page.get_attribute("main", "data-view") == "overview"
    page.tap("#chart-entropy .readout a")
    assert opened(page) == {**STEP, "first": "1", "last": "1"}
    page.goto("about:blank")
    context.close()


def test_the_points_of_buckets_are_steps_that_were_recorded(run: Path, tmp_path: Path) -> None:
    index = Index(run, tmp_path)
    index.refresh()
    found = series(index, ["success/rate", "heldout/success"], num_points=2)
    assert found["success/rate"]["steps"] == [1, 3]
    assert found["heldout/success"]["sources"] == ["before", "after"]
