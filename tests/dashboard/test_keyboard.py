"""The page by keyboard alone: the order of Tab, the focus ring, Enter, Escape and the arrow keys."""

from pathlib import Path
from typing import Any

from tests.dashboard.recorded import figures, good, log_step, new_run, play_step, task
from tests.dashboard.serving import VIEWS, Serve, Served, look, readout, wait_for_steps

REACHABLE = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']"

WATCH_FOCUS = """(which) => {
  const stops = window.stops = [], places = () => [...document.querySelectorAll(which)];
  document.addEventListener("focusin", ({ target }) => {
    const style = getComputedStyle(target), box = target.getBoundingClientRect();
    const place = places().indexOf(target);
    if (stops.at(-1)?.place === place) return;
    stops.push({ place, words: target.outerHTML.slice(0, 120),
      is_ringed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
      is_seen: box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight });
  });
  return places().filter((one) => one.checkVisibility()).length;
}"""
"""From now on, keep in `window.stops` what every focused element looks like, once if the page is redrawn."""


def active(page: Any) -> str:
    """The id of the focused element, or its text."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def tab_to(page: Any, which: str) -> None:
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("(which) => document.activeElement.matches(which)", which):
            return
    raise AssertionError(f"Tab never reached {which}")


def test_tab_reaches_everything_in_order_and_shows_where_it_is(page: Any, served: Served) -> None:
    [row, *_] = served.ask("trajectories", task="ace", first=3, last=3, source="train")["rows"]
    episodes = ({"tokens": "ratio"}, {"group": 1})
    views = [
        *((view, {}) for view in VIEWS),
        *(("trajectory", {"id": row["id"], **more}) for more in episodes),
    ]
    for view, settings in views:
        page.goto("about:blank")  # so that Tab starts at the top again
        look(page, served, view, **settings)
        num_reachable = page.evaluate(WATCH_FOCUS, REACHABLE)
        assert num_reachable > 10
        for _ in range(num_reachable):
            page.keyboard.press("Tab")
        stops = [stop for stop in page.evaluate("window.stops") if stop["place"] >= 0]  # else it only scrolls
        assert [stop["words"] for stop in stops if not (stop["is_ringed"] and stop["is_seen"])] == []
        places = [stop["place"] for stop in stops]
        assert places == sorted(set(places)), f"{view}: forward, and nothing twice"
        assert len(places) > 0.7 * num_reachable


def test_the_skip_link_leads_to_the_content_of_this_view(page: Any, served: Served) -> None:
    look(page, served, "health")
    page.keyboard.press("Tab")
    assert active(page) == "to the content"
    page.keyboard.press("Enter")
    assert active(page) == "main"
    assert page.get_attribute("main", "data-view") == "health"
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


def test_the_focus_stays_on_the_chosen_view_or_run(page: Any, served: Served) -> None:
    look(page, served, "overview")
    tab_to(page, "#view-tools")
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-view='tools'] #tools")
    assert active(page) == "view-tools"
    tab_to(page, "#run-second")
    page.keyboard.press("Space")
    page.wait_for_selector("#chart-tool-calls [data-label^='second']")
    assert active(page) == "run-second"


def test_enter_opens_an_episode_and_its_group_and_escape_leaves_them(page: Any, served: Served) -> None:
    look(page, served, "trajectories")
    page.keyboard.press("/")
    assert active(page) == "filter-search"
    tab_to(page, "#filter-task")
    page.keyboard.type("ace")
    page.keyboard.press("Enter")
    page.wait_for_selector("#total .number:text-is('10')")
    assert active(page) == "filter-task", "for further typing"
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
    page.wait_for_selector("main[data-view='trajectories'] #total .number:text-is('10')")
    assert page.input_value("#filter-task") == "ace", "filtered as before"


def test_arrow_keys_walk_over_tokens_and_describe_them(page: Any, served: Served) -> None:
    [_, row] = served.ask("trajectories", task="ace", first=3, last=3, source="train")["rows"]
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


def test_focus_step_and_scroll_stay_while_the_run_grows(page: Any, serve: Serve, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    with new_run(tmp_path) as folder:
        for step in range(3):
            log_step(folder, step)
        play_step(folder, 0, [good(task(f"a-task-with-a-long-name-{'x' * 80}-{n}")) for n in range(9)])
        look(page, serve(folder.path), "health")
        assert page.inner_text("#live") == "● connected"
        assert "running" in page.inner_text("#runs")
        page.focus("#chart-cut")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.evaluate("document.getElementById('alarms').open = false")
        log_step(folder, 3)
        wait_for_steps(page, "cut", [0, 1, 2, 3])
        assert active(page) == "chart-cut"
        assert readout(page, "cut") == {"truncation/rate": str(figures(1)["truncation/rate"])}
        assert page.evaluate("document.getElementById('chart-cut').plot.cursor.idx") == 1
        assert not page.evaluate("document.getElementById('alarms').open")
        page.hover("h2")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#chart-alignment .step:has-text('step 2')")
        page.keyboard.press("3")
        page.wait_for_selector("main[data-view='trajectories'] #list a")
        tab_to(page, "#list a")
        page.keyboard.press("Tab")
        words = active(page)
        page.evaluate("document.querySelector('.wide').scrollLeft = 40")
        play_step(folder, 1, [good(task("new"))])
        page.wait_for_selector("#list a:text-is('new')")
        assert active(page) == words
        assert page.evaluate("document.querySelector('.wide').scrollLeft") == 40
