"""Charts, runs side by side, evaluations, tools, tasks and explorations in a real browser."""

import base64
import csv
import io
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import (
    HOSTILE,
    bad,
    evaluate,
    figures,
    good,
    held_out,
    learned,
    log_step,
    new_run,
    play_step,
    task,
    write_tasks,
)
from tests.dashboard.serving import Serve, Served, heading, look, pointed, texts, wait_for_texts
from tests.dashboard.test_overlay import write_timed
from tests.dashboard.test_runs import change_recipe, write_short
from tests.explore import explored
from turnwise.dashboard.views.log_files import MAX_LINES
from turnwise.explore.report.report_json import as_json
from turnwise.system.files.atomic_write import write_json
from turnwise.types import Difficulty

LOGGER = logging.getLogger("turnwise.test")


def open_figures(page: Any, served: Served, **settings: object) -> None:
    """Open all figures of `run`."""
    look(page, served, "overview", figures=1, **settings)
    page.wait_for_selector("#all-figures #chart-entropy svg")


def xs_of(page: Any, chart: str) -> list[str]:
    """The places that the chart's axis names."""
    script = "(all) => all.map((one) => one.textContent)"
    words = page.eval_on_selector_all(f"#chart-{chart} svg text", script)
    return [each for each in words if each.removeprefix("step ").isdigit()]


def drag(page: Any, chart: str, start: float, end: float) -> None:
    page.locator(f"#chart-{chart}").scroll_into_view_if_needed()
    box = page.locator(f"#chart-{chart} .picture").bounding_box()
    page.mouse.move(box["x"] + start * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + 70, steps=4)
    page.mouse.up()


def test_a_chart_says_what_was_logged_and_its_neighbours_follow_the_pointer(
    page: Any, served: Served
) -> None:
    open_figures(page, served)
    page.focus("#chart-entropy")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert pointed(page, "entropy") == {"entropy/mean": str(learned(2)["entropy/mean"])}
    assert pointed(page, "reward")["reward/mean"] == str(figures(2)["reward/mean"]), "all charts of the grid"
    assert set(pointed(page, "time")) == {"time/rollout_seconds", "time/update_seconds"}
    assert "Value loss" in page.inner_text("#all-figures .note:has-text('Not logged')")
    page.locator("#chart-families .tip a").dispatch_event("click")  # a tap
    page.wait_for_selector("main[data-view='trajectories'] #list")
    for words in ("source=train", "first=2", "last=2", "family=quotes", "success=0"):
        assert words in page.url


def test_dragging_zooms_all_charts_and_a_double_click_shows_all_steps(page: Any, served: Served) -> None:
    open_figures(page, served)
    drag(page, "entropy", 0.35, 0.75)
    page.wait_for_url("**first=1*last=2**")
    page.wait_for_selector("#chart-reward svg text:text-is('step 1')")
    assert xs_of(page, "reward")[-1] == "2"
    page.locator("#chart-entropy .picture").dblclick()
    page.wait_for_url(lambda url: "first=" not in url)


def test_the_view_menu_sets_axis_means_range_and_scale_for_all_charts(page: Any, served: Served) -> None:
    open_figures(page, served)
    page.click("#all-figures #view-menu summary")
    page.locator("#all-figures #axis").select_option("tokens")
    page.wait_for_selector("#all-figures #chart-entropy svg text:has-text('tokens')")
    page.goto(f"{served.url}#/overview?run=run&figures=1&log=1&smooth=off&first=1")
    page.wait_for_selector("#chart-entropy:not(:has(path.raw)) svg")
    assert xs_of(page, "entropy")[0] == "step 1"
    page.goto(f"{served.url}#/overview?run=run&figures=1&smooth=0.5")  # an older address
    page.wait_for_selector("#chart-entropy path.raw")


def test_a_chart_saves_the_points_that_are_drawn_and_lines_are_switched_off(
    page: Any, served: Served
) -> None:
    open_figures(page, served, smooth="off")
    page.click("#menu-time summary")
    page.uncheck("#menu-time input >> nth=1")
    page.wait_for_timeout(300)
    with page.expect_download() as waiting:
        page.click("#csv-time")
    heads, *rows = csv.reader(io.StringIO(Path(waiting.value.path()).read_text()))
    assert (waiting.value.suggested_filename, heads) == (
        "time-by-step.csv",
        ["x", "run", "figure", "value", "low", "high"],
    )
    assert [(row[1], row[2], float(row[3])) for row in rows] == [
        ("run", "time/rollout_seconds", 2.0 + step) for step in range(4)
    ]
    page.check("#menu-time input >> nth=1")


PIXELS = """async (encoded) => {
  const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const { width, height } = picture, drawing = new OffscreenCanvas(width, height).getContext("2d");
  drawing.drawImage(picture, 0, 0);
  const { data } = drawing.getImageData(0, 0, width, height);
  const found = { width, white: 0, blue: 0, darkest: 255 };
  for (let place = 0; place < data.length; place += 4) {
    const [red, green, blue] = data.slice(place, place + 3);
    found.white += (red + green + blue === 765) / width / height;
    found.blue += red === 0x1d && green === 0x56 && blue === 0xb8;
    if (place < 280 * width) found.darkest = Math.min(found.darkest, red, green, blue);
  }
  return found;
}"""
"""Of a picture: its width, the share of white, how many pixels are blue, and the darkest of the title."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_saves_its_picture_on_white(page: Any, served: Served, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    look(page, served, "overview")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#menu-success summary")
    with page.expect_download() as waiting:
        page.click("#png-success")
    content = Path(waiting.value.path()).read_bytes()
    other = page.context.new_page()
    picture = other.evaluate(PIXELS, base64.b64encode(content).decode())
    other.close()
    assert waiting.value.suggested_filename == "success-by-step.png"
    assert picture["width"] == 2 * 760
    assert picture["white"] > 0.5
    assert picture["blue"] > 50, "the light theme's blue"
    assert picture["darkest"] < 60, "dark letters in the title"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == before


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, of which the last is shorter and slower, and a run with another learning rate."""
    root = tmp_path_factory.mktemp("seeds")
    for name, num_steps, hours, seed in (("one", 4, 0.5, 1), ("two", 4, 0.5, 2), ("three", 3, 1.0, 3)):
        write_timed(root, name, num_steps, hours, seed)
    write_timed(root, "other", 4, 0.5, 1, optimizer={"learning_rate": 1e-4})
    return root


def test_runs_are_drawn_together_and_seeds_as_their_mean_with_a_band(
    page: Any, serve: Serve, seeds: Path
) -> None:
    served = serve(*(seeds / name for name in ("one", "two", "three", "other")))
    page.goto(f"{served.url}#/overview?runs=one,two,three")  # an older address
    page.wait_for_selector("main[data-view='compare'] #chart-courses svg")
    assert page.locator("#chart-courses svg .lab").count() == 3
    page.goto(f"{served.url}#/compare?runs=one,two,three&figures=1")
    page.wait_for_selector("#all-figures #chart-success svg")
    page.focus("#chart-success")
    page.keyboard.press("End")
    found = pointed(page, "success")
    assert float(found["mean of 3 seeds success/rate"]) == pytest.approx(figures(3)["success/rate"] + 0.15)
    assert "(2 of 3 runs)" in page.inner_text("#chart-success .tip")
    assert page.locator("#chart-success path[opacity='0.15']").count() == 1, "the band"
    page.goto(f"{served.url}#/compare?runs=one,two,three&figures=1&seeds=each&axis=time")
    page.wait_for_selector("#chart-success svg text:has-text('hours')")
    page.focus("#chart-success")
    page.keyboard.press("End")
    assert {label.split(" ")[0] for label in pointed(page, "success")} == {"one", "two", "three"}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    for seed, name in enumerate(("one", "two", "three")):
        won = [number < 2 * seed for number in range(6)]
        tags = ["sweep"] if seed else []
        write_short(root, name, 2 + seed, won, seed=seed, run={"tags": tags})
    return root


def test_the_runs_are_searched_sorted_chosen_and_compared_with_any_of_them(
    page: Any, serve: Serve, sweep: Path
) -> None:
    served = serve(*(sweep / name for name in ("one", "two", "three")))
    look(page, served, "runs")
    assert texts(page, "#run-table a.to") == ["three", "two", "one"], "the best first"
    page.click("#sort-steps")
    wait_for_texts(page, "#run-table a.to", ["one", "two", "three"])
    page.click("th[aria-sort='ascending'] #sort-steps")
    page.wait_for_selector("th[aria-sort='descending'] #sort-steps")
    assert texts(page, "#run-table a.to") == ["three", "two", "one"]
    page.click("#columns")
    page.wait_for_selector("#sort-tokens")
    row = page.inner_text("#run-table [data-run='two']")
    for words in ("finished", "33%", "3 of 9", "30 s", "sweep"):
        assert words in row
    page.fill("#find", "SWEEP fin")
    wait_for_texts(page, "#run-table a.to", ["two", "three"])
    page.click("#choose-all")
    page.wait_for_selector(".dock:has-text('2 runs chosen')")
    page.click("#compare")
    page.wait_for_selector("#paired tbody tr")
    assert heading(page).startswith("No run is best beyond chance: three has 67% of held-out tasks")
    page.select_option("#base", "two")
    page.wait_for_selector("#paired [data-label='three']")
    assert "+33" in page.inner_text("#paired [data-label='three']")
    assert page.inner_text("#recipes [data-key='two seed']") == "1"


def test_a_long_list_of_runs_is_drawn_in_part_and_hostile_ones_are_text(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path / "one", "killed") as folder:
        pass
    change_recipe(folder.path, {"run": {"tags": ["=1+1"]}, "model": {"path": HOSTILE.replace("\ud800", "")}})
    for number in range(120):
        shutil.copytree(folder.path, tmp_path / "runs" / f"run-{number}")
    served = serve(tmp_path / "runs")
    look(page, served, "runs")
    assert page.locator("#run-table a.to").count() == 100
    assert "its process ended without recording why" in page.inner_text("[data-run='run-119']")
    page.click("#all-rows")
    page.wait_for_selector("#run-table [data-run='run-0']")
    with page.expect_download() as waiting:
        page.click("#csv-runs")
    heads, row, *_ = csv.reader(io.StringIO(Path(waiting.value.path()).read_text()))
    assert row[heads.index("tags")] == "'=1+1", "no formula"
    page.keyboard.press("r")
    page.keyboard.type("run-119")
    page.keyboard.press("Enter")
    page.wait_for_selector("#switch:text-is('run-119')")


def test_evaluations_agree_with_the_files_and_lead_to_their_episodes(page: Any, served: Served) -> None:
    look(page, served, "evaluations")
    assert heading(page) == "No change beyond chance: 33% before, 83% after."
    written = json.loads((served.run / "evaluations" / "after.json").read_text())["figures"]["all"]["success"]
    row = page.inner_text("#evaluations [data-name='after']")
    assert f"{100 * written['low']:.0f}% to {100 * written['high']:.0f}%" in row
    assert page.inner_text("#change tr[data-label='all']").split("\t")[5] == "+50"
    names = [row.partition("\t")[0] for row in texts(page, "#evaluations tbody tr")]
    assert names == ["held-out, before training", "validation, after 2 steps", "held-out, after training"]
    links = {
        "#evaluations [data-name='step-000002'] a": ["ace", "bee", "bee"],
        "#change tr[data-label='sums'] a.earlier": ["held0", "held2", "held4"],
        "#by-difficulty tr[data-label='easy'] a.failing": ["held0"],
        "#worse tbody a >> nth=0": ["held0"],
    }
    for link, tasks in links.items():
        look(page, served, "evaluations")
        page.click(link)
        page.wait_for_selector("main[data-view='trajectories'] #list a.to")
        wait_for_texts(page, "#list a.to", tasks)
    look(page, served, "evaluations", before="step-000002")
    assert heading(page) == "No two evaluations have a task in common."


def test_tools_lead_to_the_calls_behind_their_numbers(page: Any, served: Served) -> None:
    look(page, served, "tools")
    quote, slack = (
        page.inner_text(f"[data-{kind}]").split("\t") for kind in ("tool='quote'", "server='slack'")
    )
    assert quote[2:8] == ["16", "tool error 4", "250 ms", "1.5 s", "1.5 s", "8"]
    assert slack[1:8] == ["2", "100 ms", "100 ms", "100 ms", "open\nat step 3\n", "1", "2"]
    page.click("#tools [data-tool='quote'] a.of-tool")
    page.wait_for_selector("#calls-total:text-is('4')")
    rows = [row.split("\t") for row in texts(page, "#call-list tbody tr")]
    assert [row[0].split("\n")[0] for row in rows] == [f"step {step}, turn 1" for step in (3, 2, 1, 0)]
    for words in ("quote", "tool error", "1.5 s", '{"symbol": "?"}', "no such symbol", "2 retries"):
        assert words in "\t".join(rows[0])
    page.click("#servers [data-server='slack'] td:nth-child(10) a")  # lost to infrastructure
    page.wait_for_selector("#calls-total:text-is('2')")
    assert page.locator("#call-list .tag.infra").count() == 2
    page.click("#tools [data-tool='send'] .tag:has-text('timeout')")
    page.wait_for_selector("#list a.to")
    assert set(texts(page, "#list a.to")) == {"evil<b>", "long"}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A run of 120 training tasks, two of them played once, and six held-out ones."""
    named = [task(f"t{number}", "quotes" if number % 3 else "sums") for number in range(119)]
    named.append(task("odd one", "sums", Difficulty.HARD, prompt="How LARGE is the harbour?"))
    write_tasks(tmp_path, named)
    with new_run(tmp_path) as folder:
        play_step(folder, 0, [good(named[0]), good(named[1])])
        play_step(folder, 1, [good(named[0])])
        return folder.path


def test_tasks_are_searched_filtered_paged_and_shown_with_their_plan(
    page: Any, serve: Serve, trained: Path
) -> None:
    look(page, serve(trained), "tasks")
    assert heading(page) == "126 tasks: 120 for train, 6 for the test."
    page.click("#next")
    page.wait_for_selector("#task-list a:text-is('t50')")
    page.fill("#filter-task", "large")
    page.wait_for_selector("#total:text-is('1')")
    cells = page.inner_text("#task-list tbody tr").split("\t")
    assert cells == ["train", "odd one", "How LARGE is the harbour?", "sums", "hard", "quote", "0", ""]
    page.click("#clear")
    page.select_option("#filter-split", "test")
    page.wait_for_selector("#total:text-is('6')")
    page.click("#clear")
    page.click("#task-list a:text-is('t0')")
    page.wait_for_selector("#played table")
    assert '"51.9"' in page.inner_text("aside pre")
    assert page.inner_text("pre.arguments") == '{"symbol": "ACE"}'
    assert texts(page, "#played tbody tr") == ["step 0\t1\t100%\t1", "step 1\t1\t100%\t1"]
    page.keyboard.press("Escape")
    page.wait_for_selector("#task-list")


def test_an_exploration_has_a_page_with_coverage_reasons_and_plans(
    page: Any, serve: Serve, trained: Path
) -> None:
    write_json(trained.parent / "report.json", as_json(explored.shop()))
    served = serve(trained)
    look(page, served, "tasks")
    page.click("#to-explored")
    page.wait_for_selector("#exploration")
    assert heading(page) == "120 proved tasks use 9 of 14 tools."
    words = page.inner_text("#tools-found")
    assert "mail" in words
    assert "did not start: command not found" in words
    assert "needs a key" in words, "why no task uses it"
    assert texts(page, "#rejected tbody tr")[0].split() == ["Guessable", "60"]
    levels = texts(page, "#explored-tasks > details summary span:last-child span")
    assert levels == sorted(levels, key=["hard", "medium", "easy"].index)
    page.fill("#filter-task", "no such words")
    page.wait_for_selector("#total:text-is('0 tasks')")


def test_a_folder_of_explored_tasks_has_a_page_without_a_run_and_opens_plans(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    found = as_json(explored.shop())
    write_tasks(tmp_path, [task(each["id"]) for each in found["tasks"]])
    write_json(tmp_path / "report.json", found)
    served = serve(tmp_path)
    page.goto(served.url)
    page.wait_for_selector("main[data-view='explored'] #exploration")
    [first, *_] = [each for each in found["tasks"] if each["split"] == "train"]
    page.fill("#filter-task", first["id"])
    page.wait_for_selector("#total:text-is('1 task')")
    page.click("#explored-tasks summary >> nth=0")
    page.wait_for_selector("#explored-tasks pre.arguments")
    assert "the price is 51.9" in page.inner_text("#explored-tasks")


def test_a_hostile_exploration_stays_text_and_is_bounded(page: Any, serve: Serve, trained: Path) -> None:
    write_json(trained.parent / "report.json", as_json(explored.hostile()))
    served = serve(trained)
    assert len(json.dumps(served.ask("exploration", name="run train"))) < 2_000_000
    look(page, served, "explored", name="run train")
    page.wait_for_selector("#exploration")
    assert "<script>" in page.inner_text("#exploration")
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    (trained.parent / "report.json").write_text('{"figures": {}}')
    assert served.ask("explorations") == []


def test_the_log_is_searched_filtered_paged_and_followed_at_its_end(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        for number in range(1_200):
            LOGGER.info("line %d", number)
        look(page, serve(folder.path), "log")
        lines = texts(page, "#log-lines span")
        assert len(lines) >= MAX_LINES
        page.wait_for_timeout(200)  # it is scrolled in the next frame
        LOGGER.warning("a server was lost\n<b>its stderr</b>\x1b[31m")
        page.wait_for_selector("#log-lines .fault:has-text('its stderr')")
        at_end = "(box) => box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 4"
        page.wait_for_timeout(300)
        assert page.eval_on_selector("#log-lines", at_end), "it stays at the end"
        page.eval_on_selector("#log-lines", "(box) => { box.scrollTop = 100; }")
        LOGGER.error("one more")
        page.wait_for_selector("#log-lines .crit", state="attached")
        assert page.eval_on_selector("#log-lines", "(box) => box.scrollTop") == 100, "not while one reads"
    page.click("#log-older")
    page.wait_for_selector("#log-newest")
    page.click("#log-newest")
    page.select_option("#log-level", "warning")
    page.wait_for_selector("#log-lines:not(:has(span:nth-of-type(4))) span.fault")
    page.select_option("#log-level", "")
    page.fill("#log-text", "LINE 7")
    page.wait_for_selector("#log-lines mark:text-is('line 7')")
    assert page.query_selector("#log-lines b") is None


def test_a_family_that_got_worse_is_named_and_its_failures_are_one_click_away(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        held = held_out()
        evaluate(folder, "before", [*map(good, held)])
        evaluate(folder, "after", [good(each) if each.family == "quotes" else bad(each) for each in held])
    look(page, serve(folder.path), "evaluations")
    assert "Worse: sums (3 tasks)." in page.inner_text("#answer")
    page.click("#change [data-label='sums'] a.failing")
    wait_for_texts(page, "#list a.to", ["held0", "held2", "held4"])
