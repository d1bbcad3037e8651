"""The list of runs: its rows agree with the files, it sorts by each column, and runs are compared."""

import json
import math
import shutil
from collections.abc import Sequence
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
    log_step,
    new_run,
    summary,
)
from tests.dashboard.serving import Serve, Served, serving, texts
from turnwise.dashboard.runs import Runs
from turnwise.dashboard.views.run_cost import CostCounter
from turnwise.dashboard.views.run_row import RunRow, differing
from turnwise.records.ending import Ending, How
from turnwise.system.files.atomic_write import write_json


def write_short(root: Path, name: str, num_steps: int, success: Sequence[bool], **recipe: Any) -> Path:
    """A finished run of a few steps whose held-out tasks succeeded after training as stated."""
    with new_run(root, name, num_steps=9) as folder:
        for step in range(num_steps):
            log_step(folder, step)
        evaluate(folder, "before", [bad(each) for each in held_out()])
        after = [(good if is_good else bad)(each) for each, is_good in zip(held_out(), success, strict=True)]
        evaluate(folder, "after", after)
        rates = {"before": 0.0, "after": sum(success) / len(success)}
        seconds = 10.0 * num_steps
        write_json(folder.summary, {**summary(num_steps), "heldout_success": rates, "seconds": seconds})
        folder.end(Ending(How.FINISHED))
        change_recipe(folder.path, recipe)
    return folder.path


def change_recipe(run: Path, sections: dict[str, Any]) -> None:
    stored = json.loads((run / "recipe.json").read_text())
    for section, values in sections.items():
        stored[section] = {**stored[section], **values} if isinstance(values, dict) else values
    write_json(run / "recipe.json", stored)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, one that crashed before its first step, and one that was killed there."""
    root = tmp_path_factory.mktemp("runs")
    half = [True, True, True, False, False, False]
    write_short(root, "long", 9, half, seed=1, optimizer={"learning_rate": 1e-4})
    write_short(root, "short", 2, [True, True, True, True, True, False], seed=2)
    with new_run(root, "broken") as folder:
        folder.end(Ending(How.CRASHED, f"ValueError: model.path: no such model {HOSTILE}"))
    write_json(folder.path / "versions.json", {"recipe_file": "mine<b>.toml"})
    change_recipe(folder.path, {"model": {"path": HOSTILE.replace("\ud800", "")}})
    with new_run(root, "killed"):
        pass
    return root


def rows_of(root: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in Runs([root], root.parent / "cache").rows()}


def test_a_row_says_what_the_runs_files_say(root: Path) -> None:
    rows = rows_of(root)
    long = rows["long"]
    assert (long["state"], long["last_step"], long["num_steps"]) == ("finished", 8, 9)
    assert long["latest"]["success/rate"] == figures(8)["success/rate"]
    assert (long["heldout"], long["num_tasks"]) == ({"before": 0.0, "after": 0.5}, 6)
    assert long["seconds"] == 90.0
    broken = rows["broken"]
    assert (broken["state"], broken["last_step"], broken["recipe_file"]) == ("crashed", None, "mine<b>.toml")
    assert broken["reason"].startswith("ValueError: model.path: no such model")
    assert broken["heldout"] == {"before": None, "after": None}
    assert "killed" in rows["killed"]["reason"]


def test_a_run_without_a_summary_has_the_success_of_its_reports(tmp_path: Path) -> None:
    run = write_short(tmp_path, "run", 2, [True] * 6)
    (run / "summary.json").unlink()
    (run / "evaluations" / "after.json").unlink()
    row = rows_of(run)["run"]
    assert (row["heldout"], row["num_tasks"]) == ({"before": 0.0, "after": None}, 6)
    assert row["seconds"] >= 0, "from its creation to its end"


def test_a_row_follows_the_files_and_the_lock(tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        runs = Runs([tmp_path], tmp_path / "cache")
        [first] = runs.rows()
        log_step(folder, 0)
        [second] = runs.rows()
    [third] = runs.rows()
    assert [row["last_step"] for row in (first, second, third)] == [None, 0, 0]
    assert [row["state"] for row in (first, second, third)] == ["running", "running", "died"]


def test_a_list_of_runs_makes_no_index_of_runs_that_nobody_opens(root: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(root, tmp_path / "copied"))
    with serving(copied / "long", copied / "short", copied / "broken") as served:
        assert len(served.ask("runs")) == 3
        assert not list((copied / "cache").glob("*.sqlite"))
        assert served.ask("standing", run="long")["last_step"] == 8
        assert len(list((copied / "cache").glob("*.sqlite"))) == 1


def test_the_keys_that_differ_are_those_of_the_recipes(root: Path) -> None:
    rows = rows_of(root)
    keys = {"model.path", "optimizer.learning_rate", "run.num_steps", "seed"}
    assert all(set(row["differs"]) == keys for row in rows.values())
    assert rows["long"]["differs"]["optimizer.learning_rate"] == "0.0001"
    assert (rows["long"]["differs"]["seed"], rows["short"]["differs"]["seed"]) == ("1", "2")


def test_long_values_that_differ_at_their_end_are_shown_short_and_different() -> None:
    rows = [RunRow({}, {"tools.prompt": "x" * 10_000 + end}) for end in "ab"]
    assert differing([row.recipe for row in rows]) == ["tools.prompt"]
    one, other = (row.values(["tools.prompt"])["tools.prompt"] for row in rows)
    assert one != other
    assert len(one) < 400


def test_two_runs_are_compared_task_by_task(root: Path) -> None:
    with serving(root / "long", root / "short", root / "broken") as served:
        found = served.ask("paired", run="long", other="short")
        missing = served.ask("paired", run="long", other="broken")
        assert served.get("/api/paired?run=long&other=../short")[0].status == 404
    # tasks 3 and 4 succeed in `short` only
    assert found["all"]["value"] == pytest.approx(2 / 6)
    assert found["all"]["low"] <= 2 / 6 <= found["all"]["high"]
    assert (found["num_tasks"], found["num_left_out"]) == (6, 0)
    assert missing == {"error": "broken has no held-out evaluation after training"}


def open_list(page: Any, served: Served, settings: str = "") -> None:
    page.goto(f"{served.url}#/runs{settings}")
    page.wait_for_selector("#run-table tbody tr")


def names(page: Any) -> list[str]:
    return texts(page, "#run-table tbody a")


SORTED = {
    "name": ["broken", "killed", "long", "short"],
    "recipe": ["broken"],
    "success": ["short", "long"],
    "after": ["long", "short"],
    "seconds": ["short", "long"],
}
"""By column: the runs that have a value there, from the least to the largest; the others come after them."""


def test_the_table_sorts_by_each_column_by_mouse_and_keyboard(page: Any, serve: Serve, root: Path) -> None:
    served = serve(*(root / name for name in ("long", "short", "broken", "killed")))
    open_list(page, served)
    assert page.locator("#run-table th button").count() == 14
    for column, wanted in SORTED.items():
        open_list(page, served, "?sort=-tasks")
        page.wait_for_selector("th[aria-sort='descending'] #sort-tasks")  # the table before has rows, too
        page.click(f"#sort-{column}")
        page.wait_for_selector(f"th[aria-sort='ascending'] #sort-{column}")
        assert names(page)[: len(wanted)] == wanted, column
        page.keyboard.press("Enter")  # the focus is still on the head
        page.wait_for_selector(f"th[aria-sort='descending'] #sort-{column}")
        assert names(page)[: len(wanted)] == wanted[::-1], column
    words = page.inner_text("#run-table [data-run='long']").split("\t")
    assert words[4:10] == ["9 of 9", "58.0%", "0.0%", "50.0%", "6", "90.00 s"]


def test_a_run_of_which_nothing_came_says_why_and_hostile_text_is_inert(
    page: Any, serve: Serve, root: Path
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    open_list(page, serve(root / "broken", root / "killed", root / "long"))
    broken = page.inner_text("#run-table [data-run='broken']")
    assert "ValueError: model.path: no such model <script>" in broken
    assert "mine<b>.toml" in broken
    assert "\u202e" not in page.inner_text("main")
    assert "its process ended without recording why" in page.inner_text("[data-run='killed']")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.select_option("#sort", "-steps")
    page.wait_for_selector("#run-table tbody tr:first-child[data-run='long']")


def test_two_chosen_runs_show_where_they_differ(page: Any, serve: Serve, root: Path) -> None:
    served = serve(*(root / name for name in ("long", "short", "broken")))
    open_list(page, served, "?runs=long")
    assert "optimizer.learning_rate = 0.0001" in page.inner_text("#run-table [data-run='long']")
    page.check("#pick-short")
    page.wait_for_selector("#recipes tbody tr")
    assert texts(page, "#recipes tbody tr") == ["optimizer.learning_rate\t0.0001\t2e-05", "seed\t1\t2"]
    assert page.inner_text("#paired [data-label='all']").split("\t")[1] == "33.3%"
    assert " to " in page.inner_text("#paired [data-label='all']")
    page.uncheck("#pick-short")
    page.wait_for_selector("#between", state="detached")
    page.check("#pick-broken")
    page.wait_for_selector("#paired:has-text('broken has no held-out evaluation')")
    assert "<script>window.broken" in page.inner_text("#recipes [data-key='model.path']")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_long_list_is_drawn_in_part_until_all_is_asked_for(
    page: Any, serve: Serve, root: Path, tmp_path: Path
) -> None:
    for number in range(120):
        shutil.copytree(root / "killed", tmp_path / "runs" / f"run-{number}")
    served = serve(tmp_path / "runs")
    open_list(page, served)
    assert names(page) == [f"run-{number}" for number in range(100)], "numbers are ordered as numbers"
    assert page.locator("#runs .chip").count() == 1, "only the chosen run"
    page.click("#all-rows")
    page.wait_for_selector("#run-table [data-run='run-119']")
    page.click("#run-table [data-run='run-119'] a")
    page.wait_for_selector("main[data-view='overview'] [data-run='run-119']")


def test_a_row_has_the_tags_and_the_cost_of_its_run(tmp_path: Path) -> None:
    for name, more in (("cpu", {}), ("gpu", {"hardware": {"num_processes": 2}})):
        run = write_short(tmp_path, name, 2, [True] * 6, run={"tags": ["sweep", "b"]}, **more)
    with new_run(tmp_path, "odd") as folder:
        log_step(folder, 0)
    change_recipe(folder.path, {"run": {"tags": {"a": [HOSTILE[:20]]}}, "hardware": {"num_processes": "x"}})
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step":1,"time":1,"kind":"x","metrics":{"gpu/utilization":1}}\n')
    runs = Runs([tmp_path], tmp_path / "cache")
    for each in runs:
        each.count(deadline=math.inf)
    rows = {row["name"]: row for row in runs.rows()}
    assert [rows[name]["tags"] for name in ("cpu", "gpu", "odd")] == [["sweep", "b"], ["sweep", "b"], []]
    # 321.5 tokens a second, for 2 and 3 seconds
    assert rows["cpu"]["num_tokens"] == pytest.approx(321.5 * 5)
    assert rows["cpu"]["num_episodes"] == 8
    assert (rows["cpu"]["device"], rows["cpu"]["device_hours"]) == ("CPU", pytest.approx(20 / 3600))
    assert (rows["gpu"]["device"], rows["gpu"]["device_hours"]) == ("GPU", pytest.approx(40 / 3600))


def test_a_cost_grows_with_its_file_and_starts_again_where_a_resumed_run_has_cut_it(tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        counter = CostCounter(folder.metrics)
        counts = []
        for step in (0, 1):
            log_step(folder, step)
            counter.count(deadline=math.inf)
            counts.append(counter.cost and counter.cost.num_episodes)
        folder.cut(1)
        counter.count(deadline=math.inf)
        counts.append(counter.cost and counter.cost.num_episodes)
    assert counts == [4, 8, 4]


def test_runs_are_found_by_tag_and_any_number_of_them_is_compared(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    for seed, name in enumerate(("one", "two", "three")):
        is_good = [number < 2 * seed for number in range(6)]
        tags = ["sweep"] if seed else []
        write_short(tmp_path, name, 2, is_good, seed=seed, run={"tags": tags})
    served = serve(*(tmp_path / name for name in ("one", "two", "three")))
    open_list(page, served, "?runs=one,two,three")
    assert page.inner_text("#recipes [data-key='seed']").split("\t") == ["seed", "0", "1", "2"]
    assert page.inner_text("#paired [data-label='all']").split("\t")[1] == "33.3%", "two − one"
    page.select_option("#against", "three")
    page.wait_for_selector("#paired [data-label='all'] td:has-text('66.7%')")
    page.select_option("#base", "two")
    page.wait_for_selector("#paired [data-label='all'] td:has-text('33.3%')")
    page.fill("#find", "SWEEP fin")
    page.press("#find", "Enter")
    page.wait_for_selector("#run-table tbody tr:first-child[data-run='three']")
    assert names(page) == ["three", "two"]
    words = page.inner_text("#run-table [data-run='two']").split("\t")
    assert words[10:14] == ["1,608", "8", "0.006 CPU h", "sweep"]


def test_starts_that_left_no_run_are_rows_with_their_reason(
    page: Any, serve: Serve, root: Path, tmp_path: Path
) -> None:
    hostile = HOSTILE.replace("\ud800", "")  # a line with half a character is none of ours
    start = {"time": 1.7e9, "recipe_file": "mine.toml", "name": "mine", "command": "turnwise train mine.toml"}
    lines = [json.dumps({**start, "error": f"model.path: none such {hostile}"}), "no line of ours", "[[["]
    (tmp_path / "failed_starts.jsonl").write_text("\n".join(lines) + "\n")
    served = serve(tmp_path)
    page.goto(served.url)
    page.wait_for_selector("#run-table [data-failed]")
    assert page.locator("#run-table tbody tr").count() == 1, "also where there is no run yet"
    shutil.copytree(root / "long", tmp_path / "long")
    page.wait_for_selector("#runs .chip:has-text('long')")
    open_list(page, served)
    row = page.inner_text("#run-table [data-failed]")
    for words in (
        "mine 2023-11-14 22:13 UTC",
        "failed at start",
        "model.path: none such <script>",
        "mine.toml",
    ):
        assert words in row
    assert "\u202e" not in row
    page.fill("#find", "failed")
    page.press("#find", "Enter")
    page.wait_for_selector("#run-table [data-run='long']", state="detached")
    assert page.locator("#run-table [data-failed]").count() == 1
    with (tmp_path / "failed_starts.jsonl").open("a") as file:
        file.write(json.dumps({**start, "error": "another"}) + "\n")
    page.keyboard.press("Escape")
    page.wait_for_selector("#run-table tr:has-text('another')")
