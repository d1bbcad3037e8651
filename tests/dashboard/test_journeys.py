"""The questions of those who read the page, each answered within two steps of its first view."""

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.page_checks import check_view
from tests.dashboard.recorded import (
    HOSTILE,
    bad,
    evaluate,
    good,
    held_out,
    log_step,
    new_run,
    play_step,
    task,
    write_run,
)
from tests.dashboard.serving import Serve, Served, heading, look, texts
from tests.dashboard.test_runs import write_short
from tests.explore import explored
from turnwise.explore.report.report_json import as_json
from turnwise.records.ending import Ending, How
from turnwise.system.files.atomic_write import write_json

SIZES = [(1440, "light"), (390, "dark")]
"""All four are in test_accessible.py, for every view."""


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}-{size[1]}")
def reader(request: pytest.FixtureRequest, page: Any) -> Any:
    width, theme = request.param
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    return page


def open_page(page: Any, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("main[data-view] h1")


def test_did_it_learn_is_the_first_sentence(reader: Any, serve: Serve, run: Path) -> None:
    open_page(reader, serve(run))
    assert heading(reader) == "No change beyond chance: 33% before, 83% after."
    said = "+50 points (95% interval −17 to +100), measured on 6 held-out tasks"
    assert said in reader.inner_text("#answer")
    check_view(reader)


def test_why_it_does_not_learn_is_one_step_away(reader: Any, serve: Serve, run: Path) -> None:
    open_page(reader, serve(run))
    reader.click("#view-health")
    reader.wait_for_selector("#alarms .alarm")
    assert heading(reader) == "Look at this: at step 1 episodes are truncated before they can answer."
    alarm = reader.inner_text("[data-alarm='truncation']")
    for words in ("Episodes cut off 90%, limit 30%; once, at step 1", "1 raise rollout.tokens_per_turn"):
        assert words in alarm
    assert "rollout.tokens_per_turn = 512" in alarm
    check_view(reader)


def test_which_run_is_best_is_the_first_sentence_and_whether_by_chance_the_next(
    reader: Any, serve: Serve, tmp_path: Path
) -> None:
    for name, won in (("low", [False] * 6), ("high", [True] * 6)):
        write_short(tmp_path, name, 6, won, optimizer={"learning_rate": 1e-4 if name == "high" else 1e-2})
    open_page(reader, serve(tmp_path / "low", tmp_path / "high"))
    assert heading(reader) == "Best so far: high, with 100% of held-out tasks."
    reader.click("#view-compare")
    reader.wait_for_selector("#paired tbody tr")
    words = "high is best: 100% of held-out tasks; the other measured is worse by more than chance."
    assert heading(reader) == words
    assert "−100" in reader.inner_text("#paired [data-label='low']")
    assert reader.locator("#recipes td[data-head='optimizer.learning_rate']").count() == 2
    check_view(reader)


def test_which_call_failed_and_whose_fault_it_was(reader: Any, serve: Serve, run: Path) -> None:
    open_page(reader, serve(run))
    reader.click("#view-tools")
    reader.wait_for_selector("#call-list tbody tr")
    assert heading(reader) == "6 of 18 calls failed, 2 of them by infrastructure, 4 of them calls of quote."
    reader.click("#call-list tbody tr:has-text('quote') a")
    reader.wait_for_selector("#turn-1")
    assert "In turn 1 quote failed (tool error): the model's fault." in reader.inner_text("#answer")
    assert "✗ tool error, the model's fault" in reader.inner_text("#turn-1 .calling")
    check_view(reader)


def test_where_the_tries_at_one_task_part(reader: Any, serve: Serve, run: Path) -> None:
    open_page(reader, serve(run))
    reader.click("#view-trajectories")
    reader.wait_for_selector("#list tbody tr")
    reader.click("#list tr:has-text('ace') a")
    reader.wait_for_selector(".conversation .act, .conversation .branch", state="attached")
    assert heading(reader) == "1 of 2 tries succeeded. They part in turn 2, one already in turn 1." or (
        heading(reader) == "1 of 2 tries succeeded. They part in turn 1."
    )
    where = "#matrix" if reader.viewport_size["width"] > 760 else ".branch"
    assert "tool error: no such symbol" in reader.inner_text(where)
    assert "I do not know" in reader.inner_text(where)
    check_view(reader)


def test_which_tool_has_no_task(reader: Any, serve: Serve, run: Path, tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    write_json(tmp_path / "found" / "report.json", as_json(explored.shop()))
    served = serve(tmp_path)
    open_page(reader, served)
    assert heading(reader) == "120 proved tasks use 9 of 14 tools."
    assert "Unused: " in reader.inner_text("#answer")
    assert "shop_pay" in reader.inner_text("#answer")
    check_view(reader)


def test_how_long_it_still_takes(reader: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path, num_steps=20) as folder:
        evaluate(folder, "before", [good(each) for each in held_out()])
        for step in range(6):
            log_step(folder, step)
            play_step(folder, step, [good(task("ace")), bad(task("ace"), 1)])
        open_page(reader, serve(folder.path))
        reader.wait_for_selector("#answer b")
        assert heading(reader) == "No change to be seen yet: 50% of tries succeeded at first, 50% do now."
        # steps of 3, 4, … 8 s, 14 of them left, and 12.5 s of evaluation
        words = "Step 6 of 20, about 1 minute left at 5.5 s a step, held-out evaluation included."
        assert words in reader.inner_text("#answer")
        assert reader.title() == "55%, step 6 of 20, run, turnwise"
        check_view(reader)


FIRST_STEPS = {
    0: "Too early to say: no step is finished yet.",
    3: "Too early to say: 3 of 4 steps.",
}


@pytest.mark.parametrize("num_steps", FIRST_STEPS)
def test_the_first_steps_claim_nothing(page: Any, serve: Serve, tmp_path: Path, num_steps: int) -> None:
    with new_run(tmp_path) as folder:
        for step in range(num_steps):
            log_step(folder, step)
        open_page(page, serve(folder.path))
        assert heading(page) == FIRST_STEPS[num_steps]
        check_view(page)


def test_a_run_that_crashed_says_why_and_leads_to_its_log(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        logging.getLogger("turnwise").error("the server is gone")
        why = f"ValueError: no such model {HOSTILE}"
        folder.end(Ending(How.CRASHED, why, rank=3, traceback="Traceback: in rank 3"))
    open_page(page, serve(folder.path))
    assert heading(page).startswith("Crashed before the first step: ValueError: no such model <script>")
    page.click("#answer a:has-text('log')")
    page.wait_for_selector("#log-lines .crit:has-text('the server is gone')")
    assert "1 line of errors" in heading(page)
    assert "Traceback: in rank 3" in page.inner_text("#traceback")
    check_view(page)


def test_a_stopped_run_says_how_it_goes_on(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        folder.end(Ending(How.STOPPED, "you asked it to stop (SIGTERM)"))
    open_page(page, serve(folder.path))
    assert heading(page) == "Stopped at step 1 of 4; it can go on."
    page.wait_for_selector(f"#answer code:has-text('turnwise train --resume {folder.path}')")


def test_starts_that_left_no_run_are_there_with_their_reason(page: Any, serve: Serve, tmp_path: Path) -> None:
    hostile = HOSTILE.replace("\ud800", "")  # a line with half a character is none of ours
    start = {"time": 1.7e9, "recipe_file": "mine.toml", "name": "mine", "command": "turnwise train mine.toml"}
    lines = [json.dumps({**start, "error": f"model.path: none such {hostile}"}), "no line of ours", "[[["]
    (tmp_path / "failed_starts.jsonl").write_text("\n".join(lines) + "\n")
    served = serve(tmp_path)
    open_page(page, served)
    assert heading(page) == "No run in this folder yet."
    row = page.inner_text("[data-failed]")
    for words in ("mine", "2023-11-14 22:13 UTC", "model.path: none such <script>"):
        assert words in row
    assert "turnwise train mine.toml" in row
    shutil.copytree(write_run(tmp_path / "elsewhere", num_steps=1), tmp_path / "late")
    page.wait_for_selector("#view-overview, #run-table [data-run='late']")
    look(page, served, "runs")
    assert page.locator("[data-failed]").count() == 1
    with (tmp_path / "failed_starts.jsonl").open("a") as file:
        file.write(json.dumps({**start, "error": "another"}) + "\n")
    page.wait_for_selector("[data-failed]:has-text('another')")


def test_a_lost_server_leaves_the_last_state(page: Any, serve: Serve, run: Path) -> None:
    look(page, serve(run), "overview")
    page.route("**/api/events*", lambda route: route.fulfill(status=204))
    page.reload()
    page.wait_for_selector("#live[data-state='gone']:has-text('no server, last seen')")
    assert heading(page) == "No change beyond chance: 33% before, 83% after."
    page.goto("about:blank")
    page.evaluate("0")


def steps_to(page: Any, clicks: Sequence[str]) -> None:
    for selector in clicks:
        page.click(selector)


def test_a_filter_without_hits_offers_to_take_filters_away(page: Any, served: Served) -> None:
    look(page, served, "trajectories")
    page.goto(f"{served.url}#/trajectories?run=run&family=sums&fault=infra")
    page.wait_for_selector("#list:has-text('No group fits')")
    steps_to(page, ["#list .pill:has-text('infrastructure')"])
    page.wait_for_selector("table#list")
    assert texts(page, ".filters .pill.on") == ["sums ×"]
