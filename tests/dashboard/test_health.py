"""Whether a run is healthy: the verdict, alarms by kind with their advice, and the machine."""

from pathlib import Path
from typing import Any

from tests.dashboard.recorded import HOSTILE, figures, learned, log_step, new_run
from tests.dashboard.serving import Serve, Served, look, texts
from turnwise.config import Recipe
from turnwise.dashboard.command import open_runs, write_export
from turnwise.records.ending import Ending, How
from turnwise.records.folder import RunFolder
from turnwise.run.health.health import Alarm, AlarmLevel, find_alarms

HEALTH = "main[data-view='health'] #verdict"


def log_alarms(folder: RunFolder, step: int, alarms: list[Alarm]) -> None:
    folder.log(step, "update", {"tokens/alignment": 1.0}, alarms=alarms)


def truncated(recipe: Recipe) -> list[Alarm]:
    return find_alarms({"truncation/rate": 0.9}, recipe)


def open_health(page: Any, url: str, settings: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{url}#/health?{settings}")
    page.wait_for_selector(HEALTH)


def test_alarms_are_one_group_a_kind_with_advice(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        for step in range(40):
            alarms = truncated(folder.recipe) if 5 <= step < 20 else []
            log_alarms(folder, step, alarms)
        served = serve(folder.path)
        open_health(page, served.url)
        assert texts(page, "#verdict .badge") == ["healthy"]
        assert "the last one fired at step 19" in page.inner_text("#verdict")
        [group] = texts(page, "#alarms .alarm")
        for words in (
            "15 times, from step 5 to step 19",
            "truncation/rate = 90.0%, limit 30.0%",
            "It means: episodes are truncated before they can answer.",
            "raise rollout.tokens_per_turn or rollout.tokens_per_episode",
            f"rollout.tokens_per_turn = {folder.recipe.rollout.tokens_per_turn}",
        ):
            assert words in group
        assert group.count("truncated before they can answer") == 1, "advice is given once"
        assert len(page.query_selector_all("#alarms tr[data-step]")) == 15
        page.click("#alarms .alarm summary")
        page.wait_for_selector("#alarms tr[data-step='7']")
        page.click("#alarms tr[data-step='7'] a")
        page.wait_for_selector("main[data-view='trajectories']")
        assert page.input_value("#filter-first") == page.input_value("#filter-last") == "7"
        open_health(page, served.url, "first=6&last=9")
        assert "4 times, from step 6 to step 9" in page.inner_text("#alarms")
        assert "fired at step 19" in page.inner_text("#verdict"), "the verdict is on the whole run"
        log_alarms(folder, 40, truncated(folder.recipe))
        page.wait_for_selector("#verdict .badge:text-is('look at this')")
        assert "Episodes are truncated before they can answer (step 40 of 40)" in page.inner_text("#verdict")


def test_a_halted_run_and_its_alarm_come_first(page: Any, serve: Serve, tmp_path: Path) -> None:
    halting = Alarm("not_a_number", AlarmLevel.HALT, 1.0, 0.0, f"{HOSTILE} Try: {HOSTILE}; rest.")
    with new_run(tmp_path, "calm") as calm:
        log_step(calm, 0)
        calm.end(Ending(How.FINISHED))
    with new_run(tmp_path) as folder:
        log_alarms(folder, 0, truncated(folder.recipe))
        log_alarms(folder, 1, [halting])
        log_alarms(folder, 2, truncated(folder.recipe))
        folder.end(Ending(How.HALTED, "not_a_number"))
    open_health(page, serve(calm.path, folder.path).url, "runs=calm,run")
    assert texts(page, "#verdict .badge") == ["look at this", "healthy"]
    assert (
        "run: An alarm stopped this run at step 1: NaN or infinity occurred" in texts(page, "#verdict li")[0]
    )
    assert [each.split("\n")[0] for each in texts(page, "#alarms .alarm h3")] == [
        "stopped the run not_a_number of run",
        "warning truncation of run",
    ]
    assert "<script>" in page.inner_text("#alarms"), "as text"


def test_a_crashed_run_leads_to_its_log(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        folder.end(Ending(How.CRASHED, "ValueError: no such model"))
    open_health(page, serve(folder.path).url)
    assert "This run crashed: ValueError: no such model" in page.inner_text("#verdict")
    assert page.get_attribute("#verdict a", "href").startswith("#/log")


def test_the_machine_is_shown_and_an_idle_gpu_named(page: Any, serve: Serve, tmp_path: Path) -> None:
    with new_run(tmp_path) as folder:
        for step, used in enumerate((0.9, 0.1, 0.3)):
            gpu = {"gpu/utilization": used, "gpu/temperature_celsius": 61.0, "memory/cuda_used_fraction": 0.5}
            folder.log(step, "update", {**figures(step), **learned(0), **gpu})
    open_health(page, serve(folder.path).url)
    shown = {
        fact.get_attribute("data-fact"): fact.inner_text().split("\n")[1]
        for fact in page.query_selector_all("#machine [data-fact]")
    }
    assert shown.pop("disk").endswith(" GiB")
    assert shown == {
        "gpu/utilization": "30.0%",
        "memory/cuda_used_fraction": "50.0%",
        "gpu/temperature_celsius": "61 °C",
        "memory/peak_gib": "1.5 GiB",
    }
    words = "The GPU that learns was idle for 57% of the last steps; 75% of their time went into"
    assert f"{words} time/rollout_seconds" in page.inner_text("#machine")
    out = tmp_path / "report.html"
    write_export(open_runs([folder.path], tmp_path / "cache2"), out)
    page.goto(f"{out.as_uri()}#/health")
    page.wait_for_selector(HEALTH)
    assert words in page.inner_text("#machine")
    assert "disk left" not in page.inner_text("#machine"), "a file knows no disk"


def test_alarms_of_the_shared_run_are_marked_and_said(page: Any, served: Served) -> None:
    look(page, served, "health")
    assert texts(page, "#verdict .badge") == ["look at this"]
    assert "and 1 other kind of alarm" in page.inner_text("#verdict")
