"""A run that goes on: the page follows it, nothing is rebuilt and nothing moves under the reader."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.recorded import bad, figures, good, lines, log_step, new_run, play_step, played, task
from tests.dashboard.serving import Serve, heading, look, serving, texts
from tests.run.stage import write_recipe

ROOT = Path(__file__).parents[2]

MARK = "[...document.querySelectorAll('main *')].forEach((one) => { one.isOld = true; })"
NEW = """[...document.querySelectorAll('main *')].filter((one) => !one.isOld && !one.closest('svg, dl'))
  .map((one) => one.outerHTML.slice(0, 90))"""


def test_an_update_changes_texts_and_paths_and_rebuilds_nothing(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path, num_steps=9) as folder:
        for step in range(6):
            log_step(folder, step)
            play_step(folder, step, [good(task("ace")), bad(task("ace"), 1)])
        look(page, serve(folder.path), "overview")
        page.wait_for_selector("#answer:has-text('Step 6 of 9')")
        page.wait_for_timeout(2500)
        page.click("#recipe summary")
        page.focus("#chart-success")
        page.keyboard.press("Home")
        page.evaluate(MARK)
        page.evaluate("window.scrollTo(0, 200)")
        curve = page.get_attribute("#chart-success path.mean", "d")
        log_step(folder, 6)
        play_step(folder, 6, [good(task("ace")), bad(task("ace"), 1)])
        page.wait_for_selector("#answer:has-text('Step 7 of 9')")
        assert page.get_attribute("#chart-success path.mean", "d") != curve
        assert page.evaluate(NEW) == []
        assert page.evaluate("document.activeElement.id") == "chart-success"
        assert page.inner_text("#chart-success .tip span >> nth=0") == "step 0", "the pointed step stays"
        assert page.evaluate("[scrollY, document.getElementById('recipe').open]") == [200, True]
        assert page.title().startswith(f"{round(100 * figures(6)['success/rate'])}%, step 7 of 9")


def test_nothing_changes_while_the_pointer_is_over_a_chart_or_a_menu_is_open(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    with new_run(tmp_path, num_steps=9) as folder:
        log_step(folder, 0)
        look(page, serve(folder.path), "overview")
        page.hover("#chart-success svg")
        log_step(folder, 1)
        page.wait_for_timeout(4500)
        assert "Step 1 of 9" in page.inner_text("#answer")
        page.mouse.move(1, 1)
        page.wait_for_selector("#answer:has-text('Step 2 of 9')")
        page.click("#view-menu summary")
        log_step(folder, 2)
        page.wait_for_timeout(4500)
        assert "Step 2 of 9" in page.inner_text("#answer")
        page.keyboard.press("Escape")
        page.wait_for_selector("#answer:has-text('Step 3 of 9')")


def test_new_episodes_and_runs_are_announced_and_rows_stay(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path / "runs", "first", num_steps=9) as folder:
        log_step(folder, 0)
        play_step(folder, 0, [good(task("ace")), bad(task("ace"), 1)])
        served = serve(tmp_path / "runs")
        look(page, served, "trajectories", run="first")
        before = texts(page, "#list tbody tr")
        play_step(folder, 1, [good(task("bee"))])
        page.wait_for_selector("#news:has-text('1 new try')")
        assert texts(page, "#list tbody tr") == before
        page.click("#news button")
        page.wait_for_selector("#list tr:has-text('bee')")
        look(page, served, "runs")
        page.wait_for_timeout(2500)
        new_run(tmp_path / "runs", "another").close()
        page.wait_for_selector(".notice:has-text('1 new run')")
        assert texts(page, "#run-table tbody a.to") == ["first"]
        page.click("#show-new")
        page.wait_for_selector("#run-table [data-run='another']")


def test_a_run_that_grows_while_it_is_drawn_is_shown(page: Any, serve: Serve, tmp_path: Path) -> None:
    asked: list[str] = []

    def slowly(route: Any) -> None:
        asked.append(route.request.url)
        log_step(folder, len(asked))
        time.sleep(2.5)  # the page looks for growth every 2 s
        route.continue_()

    with new_run(tmp_path) as folder:
        log_step(folder, 0)
        page.route("**/api/series*", slowly)
        look(page, serve(folder.path), "overview")
        assert asked
        page.unroute_all(behavior="ignoreErrors")


@pytest.mark.slow
def test_a_real_training_run_is_followed_to_its_end(page: Any, serve: Serve, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, run={"num_steps": 2}, evaluation={"num_samples": 2, "every": 1})
    command = [sys.executable, "-m", "turnwise", "train", str(recipe), "--quiet"]
    run = tmp_path / "runs" / "run"
    page.set_default_timeout(180_000)  # a training run on a busy machine
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while not (run / "metrics.jsonl").exists() or not lines(run / "metrics.jsonl"):
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)  # or it might end before the page is open
        page.goto(serve(run).url)
        page.wait_for_selector(".eyebrow:has-text('running')")
        assert heading(page).startswith("Too early to say: ")
        process.send_signal(signal.SIGCONT)
        said = process.stdout.read().decode() if process.stdout else ""
        page.wait_for_selector(".eyebrow:has-text('finished')")
        assert process.wait(timeout=60) == 0
    assert heading(page) in said, "the same sentence ends the run in the terminal"
    page.click("#view-trajectories")
    page.wait_for_selector("#list")
    page.click(".seg button:text-is('tries')")
    page.wait_for_selector("#sort-oldest")
    assert int(page.inner_text("#total")) == len(played(run))
    page.click("#list tr:has-text('step 1') a >> nth=0")
    page.wait_for_selector("#turn-1")
    page.click("#tokens-1 summary")
    page.wait_for_selector("#turn-1 .tok")
    assert "tokenizer is not on this machine" not in page.inner_text("#chooser")
    page.goto("about:blank")
    (tmp_path / "model" / "tokenizer.json").unlink()
    with serving(run.rename(tmp_path / "copied")) as served:
        [first, *_] = served.ask("trajectories", source="train")["rows"]
        assert served.ask("tokens", id=first["id"])["has_pieces"], "the run has a copy of the tokenizer"
