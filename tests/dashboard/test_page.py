"""The page in a real browser, on a real server: every view, its numbers against the files, hostile words."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.looking import VIEWS, look, readout, shown
from tests.dashboard.recorded import (
    HOSTILE,
    episode,
    figures,
    good,
    learned,
    log_step,
    play_step,
    task,
    turn,
    write_run,
)
from tests.dashboard.test_server import Served, serving
from turnwise.config import Recipe
from turnwise.dashboard.command import open_runs, write_export
from turnwise.rollout.store import StoredEpisode
from turnwise.tracking.ending import Ending, How
from turnwise.tracking.folder import RunFolder
from turnwise.types import Reward, StateProbe, Truth


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("runs")
    run = write_run(root)
    write_run(root, "second", num_steps=3)
    yield from serving(run, root / "second")


def test_every_view_is_reached_by_click_and_by_key(page: Any, served: Served) -> None:
    look(page, served, "overview")
    for number, (view, whole) in enumerate(VIEWS.items(), start=1):
        page.click(f"nav a >> nth={number - 1}")
        page.wait_for_selector(f'main[data-view="{view}"] {whole}')
        assert page.get_attribute("nav a[aria-current]", "href").startswith(f"#/{view}")
    for number, (view, whole) in enumerate(VIEWS.items(), start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f'main[data-view="{view}"] {whole}')


def test_the_overview_shows_what_was_logged(page: Any, served: Served) -> None:
    look(page, served, "overview")
    card = page.inner_text('[data-run="run"]')
    assert "33.3% → 83.3%" in card
    assert shown(figures(3)["reward/mean"]) in card
    assert readout(page, "success") == {
        "success/rate": str(figures(3)["success/rate"]),
        "heldout/success": str(5 / 6),
    }
    assert readout(page, "entropy") == {"entropy/mean": str(learned(3)["entropy/mean"])}
    assert set(readout(page, "time")) == {"time/rollout_seconds", "time/update_seconds"}
    # the arrow keys walk over the steps
    page.focus("#chart-success")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert readout(page, "success")["success/rate"] == str(figures(2)["success/rate"])
    # and so does the pointer
    box = page.query_selector("#chart-reward svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.13, box["y"] + box["height"] / 2)
    assert readout(page, "reward")["reward/mean"] == str(figures(0)["reward/mean"])
    assert "Value loss" in page.inner_text("main")  # said to be missing
    assert page.query_selector("#chart-value") is None


def test_every_chart_says_in_a_line_what_it_means(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="evil")["rows"]
    least = {"overview": 12, "health": 6, "tools": 4, "evaluations": 2, "trajectory": 1}
    for view, num in least.items():
        look(page, served, view, **({"id": row["id"]} if view == "trajectory" else {}))
        charts = page.query_selector_all("figure")
        assert len(charts) >= num
        for chart in charts:
            assert 20 < len(chart.query_selector(".note").inner_text()) < 140
        assert len(page.query_selector_all("main svg")) == len(charts), "no picture without its words"


def test_smoothing_and_range_change_what_is_drawn(page: Any, served: Served) -> None:
    look(page, served, "overview")
    page.fill("#first", "1")
    page.press("#first", "Enter")
    page.wait_for_url("**first=1**")
    page.fill("#last", "2")
    page.press("#last", "Enter")
    page.wait_for_selector("#chart-success .readout .step:has-text('step 2')")
    assert readout(page, "success")["success/rate"] == str(figures(2)["success/rate"])
    look(page, served, "overview", smooth=0.5)
    page.wait_for_selector("#chart-success path.faint")
    # 0.5, 0.51, 0.52, 0.53 with weights 1/8, 1/4, 1/2, 1 over their sum
    numbers = page.query_selector_all("#chart-success .readout .number")
    mean = (0.5 / 8 + 0.51 / 4 + 0.52 / 2 + 0.53) / (1 / 8 + 1 / 4 + 1 / 2 + 1)
    assert float(numbers[1].get_attribute("title")) == pytest.approx(mean)


def test_runs_are_laid_over_each_other(page: Any, served: Served) -> None:
    look(page, served, "overview")
    page.check("#runs input >> nth=1")
    page.wait_for_selector("#chart-success [data-label='second success/rate']")
    found = readout(page, "success")
    assert found["run success/rate"] == str(figures(3)["success/rate"])
    assert found["second success/rate"] == str(figures(2)["success/rate"])
    paths = page.query_selector_all("#chart-success path.line")
    colours = [path.evaluate("(each) => getComputedStyle(each).stroke") for path in paths]
    assert len(set(colours)) == 2


def test_health_shows_ratios_boundaries_and_alarms_at_their_steps(page: Any, served: Served) -> None:
    look(page, served, "health")
    bounds = [
        float(element.get_attribute("data-bound")) for element in page.query_selector_all("[data-bound]")
    ]
    assert bounds == [0.8, 1.28]
    assert readout(page, "ratios-0") == {"tokens": "104"}
    rows = page.query_selector_all("#alarms tr[data-step]")
    assert [row.get_attribute("data-step") for row in rows] == ["2", "1"]
    assert "truncation/rate is 0.9, above 0.3: episodes are truncated" in rows[1].inner_text()
    assert len(page.query_selector_all("#chart-active line.alarm")) == 2
    assert readout(page, "alignment") == {"tokens/alignment": "1"}


def test_the_list_is_filtered_and_leads_to_an_episode_and_its_group(page: Any, served: Served) -> None:
    look(page, served, "trajectories")
    assert page.inner_text("#total") == "30"
    page.select_option("#filter-source", "train")
    page.wait_for_selector("#total .number:text-is('18')")
    page.fill("#filter-task", "ace")
    page.press("#filter-task", "Enter")
    page.wait_for_selector("#total .number:text-is('8')")
    page.select_option("#filter-fault", "model")
    page.wait_for_selector("#total .number:text-is('4')")
    page.click("#list tbody a >> nth=0")
    page.wait_for_selector("#turn-2")
    assert page.inner_text("#reward") == "0"
    assert page.inner_text("#parts tbody") == "outcome\t0\nformat\t0.5"
    text = page.inner_text("#turn-1")
    assert "quote" in text
    assert "tool_error" in text
    assert "1.50 s" in text
    assert "2 retries" in text
    assert '{"symbol": "?"}' in text
    assert [chip.inner_text() for chip in page.query_selector_all("#group .chip")] == ["1", "0"]
    links = page.query_selector_all("#elsewhere tbody a")
    assert [link.inner_text() for link in links] == ["step 0", "step 1", "step 2", "step 3"]
    page.click("#side")
    page.wait_for_selector(".side >> nth=1")
    assert "51.9" in page.inner_text(".side >> nth=0")
    assert "I do not know" in page.inner_text(".side >> nth=1")


def test_tokens_are_coloured_by_what_the_files_hold(page: Any, served: Served) -> None:
    [row] = served.ask("trajectories", task="ace", first=3, last=3, success=0)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", tokens="logprob")
    tokens = page.query_selector_all("#turn-1 .token")
    assert [token.get_attribute("data-id") for token in tokens] == ["1", "2", "3", "4"]
    assert "log-prob -1.25" in tokens[2].get_attribute("title")
    back = [token.evaluate("(each) => getComputedStyle(each).backgroundColor") for token in tokens]
    assert len(set(back)) == 4  # likelier and less likely tokens look different
    page.select_option("#tokens", "mask")
    page.wait_for_selector("#turn-1 .token.own")
    assert len(page.query_selector_all("#turn-1 .token")) == 9
    assert len(page.query_selector_all("#turn-1 .token.own")) == 4
    page.select_option("#tokens", "advantage")
    page.wait_for_selector("#turn-1 .token.minus1")
    assert "Advantage -0.5 for every token" in page.inner_text(".settings")
    page.select_option("#tokens", "ratio")
    page.wait_for_selector("#turn-1 .token.plus3")
    tokens = page.query_selector_all(".token")
    shades = [token.get_attribute("class").removeprefix("token ") for token in tokens]
    assert shades == [
        "null0",
        "plus3 stopped",
        "minus3 stopped",
        "null0",
        "plus1",
        "minus1",
        "null0",
        "plus3 stopped",
    ]
    words = tokens[1].get_attribute("title")
    assert words.startswith("id 2 · log-prob -0.5 as sampled")
    assert words.endswith("ratio 1.3 · advantage -0.5 · clipped high · loss mask 1")
    assert tokens[7].get_attribute("title").endswith("dropped before the loss · loss mask 0")
    assert tokens[1].evaluate("(each) => getComputedStyle(each).textDecorationLine") == "underline"
    assert "from 0.5 to 4; underlined: clipped or dropped, 3 of 8 tokens" in page.inner_text(".settings")


def test_of_tokens_that_were_not_kept_the_page_says_why(page: Any, served: Served) -> None:
    [row, _] = served.ask("trajectories", task="bee", first=3, last=3)["rows"]
    look(page, served, "trajectory", id=row["id"], run="run", tokens="ratio")
    assert "not of this one" in page.inner_text(".settings")
    assert "minus" not in page.inner_html("#turn-1")
    page.select_option("#tokens", "advantage")
    page.wait_for_selector("#turn-1 .token.null0")
    assert "Advantage 0" in page.inner_text(".settings")


def test_what_could_not_be_judged_is_shown_as_that(page: Any, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        of = replace(task("asked"), truth=Truth(probes=(StateProbe("quote", {}, "51.9"),)))
        play_step(folder, 0, [StoredEpisode(episode(of, [turn(0, "done")]), Reward(0.0, {"own:part": 0.0}))])
        for served in serving(folder.path):
            look(page, served, "trajectories")
            assert page.inner_text("#list tbody .badge.bad") == "reward"
            page.click("#list tbody a")
            page.wait_for_selector("#turn-1")
            assert page.inner_text(".conversation .badge >> nth=0") == "not judged"
            assert "no success" not in page.inner_text(".conversation")
            page.goto("about:blank")


def test_tools_and_evaluations_agree_with_the_files(page: Any, served: Served) -> None:
    look(page, served, "tools")
    assert "market" in page.inner_text("#tools [data-tool='quote']")
    cells = page.inner_text("#tools [data-tool='quote']").split("\t")
    assert cells[2:8] == ["16", "tool_error 4", "250 ms", "1.50 s", "1.50 s", "8"]
    open_, closed = [
        page.inner_text(f"#servers [data-server='{name}']").split("\t") for name in ("slack", "market")
    ]
    assert open_[1:5] == ["2", "100 ms", "100 ms", "100 ms"]
    assert open_[5:8] == ["open at step 3", "1", "2"]
    assert closed[1:5] == ["16", "250 ms", "1.50 s", "1.50 s"]
    assert closed[5:8] == ["closed at step 3", "0", "0"]
    assert readout(page, "breakers") == {"breaker/openings/market": "0", "breaker/openings/slack": "0"}
    look(page, served, "evaluations")
    written = json.loads((served.run / "evaluations" / "after.json").read_text())["figures"]["all"]["success"]
    row = page.inner_text("#evaluations [data-name='after']")
    bounds = " ".join(f"{100 * written[end]:.1f}%" for end in ("low", "high"))
    assert f"{100 * written['value']:.1f}% [{bounds}]" in row
    assert page.inner_text("#change [data-label='all']").split("\t")[1] == "0.5"
    page.click("#evaluations [data-name='after'] a")
    page.wait_for_selector("#list a")
    assert [link.inner_text() for link in page.query_selector_all("#list a")] == ["held0"]


def test_hostile_words_stay_words(page: Any, served: Served) -> None:
    look(page, served, "trajectories", task="evil")
    assert page.inner_text("#list tbody a") == "evil<b>"
    page.click("#list tbody a")
    page.wait_for_selector("#turn-2")
    assert page.inner_text("h2") == "evil<b>"
    text = page.inner_text("#turn-1 pre.said")
    assert "<script>window.broken = 1</script><img src=x" in text
    assert "␛[31mred␛[0m ⟨U+202E⟩gnp.exe⟨U+202C⟩" in text
    assert "\u202e" not in page.inner_text("body")
    assert page.query_selector("main script, main img, main b:has(> b), main i") is None
    # the same words as an argument, as a result, as an error and as the name of a reward's part
    assert page.inner_text("#turn-1").count("window.broken = 1") == 3
    assert "window.broken = 1" in page.inner_text("#turn-2")
    assert "window.broken = 1" in page.inner_text("#parts")
    page.click("#side")
    page.wait_for_selector(".side")
    assert "window.broken = 1" in page.inner_text(".side")


def test_a_line_of_a_million_signs_is_shown_in_part_and_then_whole(page: Any, served: Served) -> None:
    look(page, served, "trajectories", task="long")
    page.click("#list tbody a")
    page.wait_for_selector("#turn-2")
    assert len(page.inner_text("#turn-1 pre.said")) < 5_000
    page.click("#turn-1 .more >> nth=0")
    assert page.evaluate("document.querySelector('#turn-1 pre.said').textContent.length") == 2**20


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_runs_over_the_edge_and_words_can_be_read(
    page: Any, served: Served, width: int, theme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    for view in VIEWS:
        look(page, served, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CONTRAST) >= 4.5
    [row] = served.ask("trajectories", task="evil")["rows"]
    look(page, served, "trajectory", id=row["id"], run="run")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


CONTRAST = """() => {
  const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const back = light(getComputedStyle(document.body).backgroundColor);
  const texts = [...document.querySelectorAll("p, td, th, h2, h3, a:not([aria-current]), .note, .badge")];
  return Math.min(...texts.map((each) => light(getComputedStyle(each).color))
    .map((front) => (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)));
}"""
"""The least contrast of any words against the page (WCAG asks for 4.5)."""


def test_the_theme_is_switched_and_kept(page: Any, served: Served) -> None:
    look(page, served, "overview")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    page.wait_for_selector(".chart")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after


def test_a_run_that_goes_on_is_followed(page: Any, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        log_step(folder, 0)
        for served in serving(folder.path):
            look(page, served, "overview")
            assert readout(page, "success") == {"success/rate": str(figures(0)["success/rate"])}
            page.wait_for_selector("#live[data-state='live']")
            page.focus("#chart-success")
            log_step(folder, 1)
            play_step(folder, 1, [good(task("new"))])
            page.wait_for_selector("#chart-success .readout .step:has-text('step 1')")
            assert readout(page, "success") == {"success/rate": str(figures(1)["success/rate"])}
            assert page.evaluate("document.activeElement.id") == "chart-success"
            page.click("nav a >> nth=2")
            page.wait_for_selector("#list a:has-text('new')")
            assert "running" in page.inner_text("#runs")
            page.goto("about:blank")  # let go of the stream before the server ends


def test_a_run_that_grows_faster_than_it_is_drawn_is_shown(page: Any, tmp_path: Path) -> None:
    asked: list[str] = []

    def slowly(route: Any) -> None:
        asked.append(route.request.url)
        log_step(folder, len(asked))
        time.sleep(2.5)  # longer than the page waits before it follows
        route.continue_()

    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        log_step(folder, 0)
        for served in serving(folder.path):
            page.route("**/api/series*", slowly)
            look(page, served, "overview")  # it is drawn, though whatever comes later has grown by then
            assert asked
            page.unroute_all(behavior="ignoreErrors")
            page.goto("about:blank")


def test_an_exported_file_shows_the_same_without_a_server(page: Any, served: Served, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    write_export(open_runs([served.run], tmp_path / "cache"), out)
    content = out.read_text()
    assert not re.search(r'(src|href)="(?!#)', content)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{out.as_uri()}#/overview")
    page.wait_for_selector("#chart-success")
    assert readout(page, "success")["success/rate"] == str(figures(3)["success/rate"])
    for number, (view, whole) in enumerate(VIEWS.items(), start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f'main[data-view="{view}"] {whole}')
    page.keyboard.press("3")
    page.wait_for_selector("#list")
    page.fill("#filter-task", "evil")
    page.press("#filter-task", "Enter")
    page.wait_for_selector("#total .number:text-is('1')")
    page.click("#list tbody a")
    page.wait_for_selector("#turn-2")
    assert "<script>window.broken = 1</script>" in page.inner_text("#turn-1 pre.said")
    page.select_option("#tokens", "logprob")
    page.wait_for_selector("#turn-1 .token")
    assert {url.partition("#")[0] for url in requests} == {out.as_uri()}


def test_hostile_words_are_among_what_was_tried() -> None:
    assert all(word in HOSTILE for word in ("<script>", "\x1b[", "\u202e", "\x00", "\ud800"))


def test_a_run_that_crashed_at_its_start_says_so_and_why(page: Any, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, "run", Recipe(), is_dated=False) as folder:
        folder.end(Ending(How.CRASHED, f"ValueError: no such model {HOSTILE}"))
    for served in serving(folder.path):
        page.goto(f"http://127.0.0.1:{served.port}/")
        page.wait_for_selector('.ended[data-state="crashed"]')
        card = page.inner_text('[data-run="run"]')
        assert "ValueError: no such model <script>" in card
        assert "training.log" in card
        assert page.inner_text("#runs small.bad") == "crashed"
