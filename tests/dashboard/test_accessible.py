"""By keyboard, with a screen reader, at 400%, on a phone, in any theme, and within the budget."""

from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.page_checks import check_view
from tests.dashboard.recorded import bad, evaluate, good, log_step, new_run, play_step, task, write_run
from tests.dashboard.serving import RUN_VIEWS, VIEWS, Serve, Served, heading, look, pointed, texts
from tests.explore import explored
from turnwise.dashboard.page_script import FONTS
from turnwise.explore.report.report_json import as_json
from turnwise.system.files.atomic_write import write_json

FIRST_LOAD_BYTES = 240_000
MAX_ELEMENTS = 1_000

EPISODES: list[tuple[str, dict[str, object]]] = [
    ("trajectory", {"id": 17}),
    ("trajectory", {"id": 17, "tokens": "push"}),
    ("trajectory", {"id": 17, "group": 1}),
    ("trajectories", {"list": "tries"}),
]
PLACES: list[tuple[str, dict[str, object]]] = [*((view, {}) for view in VIEWS), *EPISODES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose tasks were explored."""
    root = tmp_path_factory.mktemp("whole")
    write_json(root / "report.json", as_json(explored.shop()))
    write_run(root, "second", num_steps=3)
    return write_run(root)


@pytest.mark.parametrize(
    ("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark"), (320, "light")]
)
def test_every_view_is_readable_in_any_width_and_theme(
    page: Any, serve: Serve, whole: Path, width: int, theme: str
) -> None:
    """A window of 1280 px at 400% is 320 px wide."""
    served = serve(whole, whole.parent / "second")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    for view, settings in PLACES:
        page.goto("about:blank")
        look(page, served, view, **settings)
        page.wait_for_timeout(150)
        check_view(page)
        assert page.evaluate("document.querySelectorAll('main *').length") <= MAX_ELEMENTS, view
        page.evaluate(
            "document.querySelectorAll('details:not(.menu)').forEach((part) => { part.open = true; })"
        )
        page.wait_for_timeout(250)
        check_view(page)


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
"""From now on, keep in `window.stops` what every focused element looks like."""

REACHABLE = (
    "a[href]:not([tabindex='-1']), button:not(:disabled, [tabindex='-1']), input, select, summary, "
    "[tabindex='0']"
)


def test_tab_reaches_everything_in_order_and_shows_where_it_is(page: Any, served: Served) -> None:
    for view, settings in [
        *((view, {}) for view in ("runs", "overview", "health", "tools")),
        EPISODES[1],
        EPISODES[2],
    ]:
        page.goto("about:blank")  # so that Tab starts at the top again
        look(page, served, view, **settings)
        page.wait_for_timeout(200)
        num_reachable = page.evaluate(WATCH_FOCUS, REACHABLE)
        for _ in range(num_reachable):
            page.keyboard.press("Tab")
        stops = [stop for stop in page.evaluate("window.stops") if stop["place"] >= 0]
        assert [stop["words"] for stop in stops if not (stop["is_ringed"] and stop["is_seen"])] == []
        places = [stop["place"] for stop in stops]
        assert places == sorted(set(places)), f"{view}: forward, and nothing twice"
        assert len(places) > 0.7 * num_reachable


def active(page: Any) -> str:
    """The id of the focused element, or its text."""
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent"))


def test_every_key_of_the_list_does_what_it_says(page: Any, served: Served) -> None:
    look(page, served, "overview")
    for number, view in enumerate(RUN_VIEWS, start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"main[data-view='{view}'] {RUN_VIEWS[view]}")
    page.keyboard.press("/")
    page.wait_for_selector("#log-text:focus")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_selector("main[data-view='overview']")
    page.keyboard.press("/")
    page.wait_for_selector("#filter-search:focus")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.matches('#list tbody tr:first-child a')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".conversation")
    page.keyboard.press("Escape")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    page.keyboard.press("r")
    page.wait_for_selector("#switcher #run-shown:focus")
    page.keyboard.type("sec")
    page.keyboard.press("Enter")
    page.wait_for_selector("#switch:text-is('second')")
    page.keyboard.press("Escape")
    page.wait_for_selector("main[data-view='runs']")
    page.focus("#run-table [data-run='run'] a")
    page.keyboard.press("x")
    page.wait_for_selector(".dock:has-text('1 run chosen')")
    page.focus("#run-table [data-run='second'] a")
    page.keyboard.press("x")
    page.wait_for_selector(".dock:has-text('2 runs chosen')")
    page.keyboard.press("c")
    page.wait_for_selector("main[data-view='compare'] #between")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.uncheck("#single-keys")
    page.keyboard.press("Escape")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after, "switched off"


def test_the_skip_link_leads_to_the_content_and_a_new_view_takes_the_focus(page: Any, served: Served) -> None:
    look(page, served, "health")
    page.keyboard.press("Tab")
    assert active(page) == "to the content"
    page.keyboard.press("Enter")
    assert active(page) == "main"
    page.click("#view-tools")
    page.wait_for_selector("main[data-view='tools'] #tools")
    assert active(page) == "view-tools"


def test_a_chart_is_one_stop_and_is_walked_with_arrow_keys(page: Any, served: Served) -> None:
    look(page, served, "overview")
    page.focus("#chart-success")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#chart-success .tip span >> nth=0") == "step 3"
    assert pointed(page, "success")["training"] == "0.53"
    page.keyboard.press("Home")
    assert page.inner_text("#chart-success .tip span >> nth=0") == "step 0"
    assert page.get_attribute("#chart-success .tip", "aria-live") == "polite"
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert "first=0&last=0&source=train" in page.url


def test_tokens_are_one_stop_and_said_in_one_place(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="ace", first=3, last=3, success=0)["rows"]
    look(page, served, "trajectory", id=row["id"], tokens="push")
    page.wait_for_selector("#turn-1 .tok")
    assert page.locator("#turn-1 .tok[tabindex='0']").count() == 1
    page.focus("#turn-1 .tok >> nth=0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    said = page.inner_text("#pointed")
    for words in (
        "id\n3",
        "log-prob as sampled\n−1.25",
        "credit\n−0.5",
        "push\n0",
        "ratio\n0.5",
        "clipped low",
    ):
        assert words in said, said


def test_forced_colours_keep_marks_and_reduced_motion_stills(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        play_step(folder, 0, [good(task("ace")), bad(task("ace"), 1)])
        served = serve(folder.path)
        look(page, served, "trajectories")
        breathes = "getComputedStyle(document.querySelector('#live .dot')).animationName"
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(breathes) == "breathe"
        page.emulate_media(reduced_motion="reduce", forced_colors="active")
        assert page.evaluate(breathes) == "none"
        fills = "[...document.querySelectorAll('.wl path')].map((path) => getComputedStyle(path).fill)"
        assert len(set(page.evaluate(fills))) == 2, "a success and a failure are told apart"
        assert "✗ 1 call failed, the model's fault" in page.inner_text("#list")
        page.emulate_media(reduced_motion="null", forced_colors="null")


def test_the_first_load_is_small_and_asks_nobody_else(page: Any, serve: Serve, run: Path) -> None:
    served = serve(run)
    loaded: list[Any] = []

    def keep(response: Any) -> None:
        loaded.append(response)

    page.on("response", keep)
    page.goto(served.url)
    page.wait_for_selector("main[data-view='overview'] #chart-success svg")
    page.wait_for_timeout(300)
    sizes = {each.url: len(each.body()) for each in loaded if "/api/" not in each.url}
    page.remove_listener("response", keep)
    assert all(url.startswith(served.url) for url in sizes)
    assert sum(url.endswith(FONTS) for url in sizes) == len(FONTS)
    assert sum(sizes.values()) <= FIRST_LOAD_BYTES, sizes


def test_ten_thousand_points_are_drawn_with_four_hundred(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path, num_steps=1200) as folder:
        for step in range(1200):
            log_step(folder, step)
        evaluate(folder, "before", [good(task("held"))])
    look(page, serve(folder.path), "overview")
    script = "document.querySelector('#chart-success path.mean').getAttribute('d').split(/[ML]/).length - 1"
    assert page.evaluate(script) <= 400
    assert heading(page).startswith("Died at step 1200")
    assert len(texts(page, "#vitals tbody tr")) > 10
