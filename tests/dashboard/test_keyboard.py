"""The page without a pointer: the way of Tab, the ring around what it is at, Enter, Escape and the arrows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.looking import VIEWS, look, readout
from tests.dashboard.recorded import figures, good, log_step, play_step, task, write_run
from tests.dashboard.test_server import Served, serving
from turnwise.config import Recipe
from turnwise.tracking.folder import RunFolder

REACHABLE = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']"

RING = """() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  return { ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    is_seen: box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight,
    place: [...document.querySelectorAll(WHICH)].indexOf(at), words: at.outerHTML.slice(0, 120) };
}""".replace("WHICH", repr(REACHABLE))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("runs")
    yield from serving(write_run(root), write_run(root, "second", num_steps=2))


def active(page: Any) -> str:
    """Where the focus is: its id, or else its words."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def tab_to(page: Any, which: str) -> None:
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("(which) => document.activeElement.matches(which)", which):
            return
    raise AssertionError(f"Tab never came to {which}")


@pytest.mark.parametrize("view", [*VIEWS, "trajectory", "group"])
def test_tab_comes_to_everything_in_order_and_shows_where_it_is(page: Any, served: Served, view: str) -> None:
    [row, *_] = served.ask("trajectories", task="ace", first=3, last=3)["rows"]
    more = {"trajectory": {"id": row["id"], "tokens": "ratio"}, "group": {"id": row["id"], "group": 1}}
    look(page, served, "trajectory" if view == "group" else view, **more.get(view, {}))
    num = page.evaluate("(which) => document.querySelectorAll(which).length", REACHABLE)
    assert num > 10
    places = []
    for _ in range(num):
        page.keyboard.press("Tab")
        found = page.evaluate(RING)
        if found["place"] < 0:  # a table or text that only scrolls is stopped at too
            continue
        assert found["ring"], found["words"]
        assert found["is_seen"], found["words"]
        places.append(found["place"])
    assert places == sorted(set(places)), "forward, and nothing twice"
    assert len(places) > 0.7 * num


def test_the_way_past_the_heads_leads_to_the_content_of_this_view(page: Any, served: Served) -> None:
    look(page, served, "health")
    page.keyboard.press("Tab")
    assert active(page) == "to the content"
    page.keyboard.press("Enter")
    assert active(page) == "main"
    assert page.get_attribute("main", "data-view") == "health"
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


def test_enter_on_a_view_or_a_run_keeps_the_place(page: Any, served: Served) -> None:
    look(page, served, "overview")
    tab_to(page, "#view-tools")
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-view='tools'] #tools")
    assert active(page) == "view-tools"
    tab_to(page, "#run-second")
    page.keyboard.press("Space")
    page.wait_for_selector("#chart-tool-calls [data-label^='second']")
    assert active(page) == "run-second"


def test_enter_goes_into_an_episode_and_its_group_and_escape_comes_out_again(
    page: Any, served: Served
) -> None:
    look(page, served, "trajectories")
    page.keyboard.press("/")
    assert active(page) == "filter-task"
    page.keyboard.type("ace")
    page.keyboard.press("Enter")
    page.wait_for_selector("#total .number:text-is('8')")
    assert active(page) == "filter-task", "to go on typing"
    page.keyboard.press("Escape")
    assert active(page) == "main"
    tab_to(page, "#list a")
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-view='trajectory'] #turn-2")
    tab_to(page, "#side")
    page.keyboard.press("Enter")
    page.wait_for_selector(".side")
    page.keyboard.press("Escape")
    page.wait_for_selector("#turn-2")
    page.keyboard.press("Escape")
    page.wait_for_selector("main[data-view='trajectories'] #total .number:text-is('8')")
    assert page.input_value("#filter-task") == "ace", "as it was filtered"


def test_tokens_are_walked_over_and_say_what_they_are(page: Any, served: Served) -> None:
    [_, row] = served.ask("trajectories", task="ace", first=3, last=3)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", tokens="ratio")
    tab_to(page, "#turn-1 .tokens")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    words = page.inner_text("#turn-1 .pointed")
    assert words.startswith("id 2 · log-prob -0.5 as sampled")
    assert words.endswith("ratio 1.3 · advantage -0.5 · clipped high · loss mask 1")
    page.keyboard.press("End")
    assert page.inner_text("#turn-1 .pointed").startswith("id 4 ·")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("#turn-1 .token.at", "data-id") == "3"
    page.click("#turn-2 .token >> nth=0")
    assert page.inner_text("#turn-2 .pointed").startswith("id 11 ·")


def test_what_the_user_has_in_hand_stays_while_the_run_grows(page: Any, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        for step in range(3):
            log_step(folder, step)
        play_step(folder, 0, [good(task(f"a-task-with-a-long-name-{'x' * 80}-{n}")) for n in range(9)])
        for served in serving(folder.path):
            look(page, served, "health")
            page.focus("#chart-cut")
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
            assert readout(page, "cut") == {"truncation/rate": str(figures(1)["truncation/rate"])}
            page.evaluate("document.getElementById('alarms').open = false")
            drawn = page.get_attribute("main", "data-drawn")
            log_step(folder, 3)
            page.wait_for_selector(f"main:not([data-drawn='{drawn}'])")
            assert active(page) == "chart-cut"
            assert readout(page, "cut") == {"truncation/rate": str(figures(1)["truncation/rate"])}
            assert not page.evaluate("document.getElementById('alarms').open")
            page.keyboard.press("3")
            page.wait_for_selector("main[data-view='trajectories'] #list a")
            tab_to(page, "#list a")
            page.keyboard.press("Tab")
            words = active(page)
            page.evaluate("document.querySelector('.wide').scrollLeft = 40")
            drawn = page.get_attribute("main", "data-drawn")
            play_step(folder, 1, [good(task("new"))])
            page.wait_for_selector("#list a:text-is('new')")
            assert page.get_attribute("main", "data-drawn") != drawn
            assert active(page) == words
            assert page.evaluate("document.querySelector('.wide').scrollLeft") == 40
            page.goto("about:blank")
