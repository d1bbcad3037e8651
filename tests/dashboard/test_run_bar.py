"""Every view of one run names it and lets another be chosen; the choice is kept from view to view."""

import shutil
from pathlib import Path
from typing import Any

from tests.dashboard.recorded import new_run
from tests.dashboard.serving import VIEWS, Serve, Served, look, texts


def test_each_view_of_one_run_names_it_and_can_change_it(page: Any, served: Served) -> None:
    for view in VIEWS:
        look(page, served, view, runs="run,second", run="second")
        if view in ("overview", "runs"):
            assert page.query_selector("#run-bar") is None
        else:
            assert page.input_value("#run-shown") == "second", view
    look(page, served, "trajectories", runs="run")
    page.select_option("#run-shown", "second")
    page.wait_for_selector("#total .number:text-is('26')")
    for view in ("tools", "evaluations", "tasks", "health", "trajectories"):
        page.click(f"#view-{view}")
        page.wait_for_selector(f"main[data-view='{view}'] #run-bar")
        assert page.input_value("#run-shown") == "second", view
    page.click("#list tbody a >> nth=0")
    page.wait_for_selector("main[data-view='trajectory'] #run-bar")
    page.select_option("#run-shown", "run")
    page.wait_for_selector("main[data-view='trajectories'] #list")
    assert page.input_value("#run-shown") == "run"


def test_among_many_runs_one_is_searched_for(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path, "run-0") as folder:
        pass
    for number in range(1, 30):
        shutil.copytree(folder.path, tmp_path / f"run-{number}")
    served = serve(*(tmp_path / f"run-{number}" for number in range(30)))
    page.goto(f"{served.url}#/trajectories?runs=run-3")
    page.wait_for_selector("#run-bar")
    page.fill("#run-shown", "no such run")
    page.press("#run-shown", "Enter")
    assert page.input_value("#run-shown") == "run-3"
    page.fill("#run-shown", "run-17")
    page.press("#run-shown", "Enter")
    page.wait_for_url("**run=run-17*")
    page.wait_for_selector("#runs .chip:has-text('run-17')")
    assert texts(page, "#runs .chip")[0].startswith("run-17")
