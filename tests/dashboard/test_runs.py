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
from tests.dashboard.serving import serving
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
        assert len(served.ask("runs")["runs"]) == 3
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
    assert found["heading"].startswith("No run is best beyond chance: short has 83%")
    assert missing["heading"] == "long has 50% of held-out tasks; no other run is measured on the same tasks."
    found, missing = found["found"]["short"], missing["found"]["broken"]
    # tasks 3 and 4 succeed in `short` only
    assert found["all"]["value"] == pytest.approx(2 / 6)
    assert found["all"]["low"] <= 2 / 6 <= found["all"]["high"]
    assert (found["num_tasks"], found["num_left_out"]) == (6, 0)
    assert missing == {"error": "broken has no held-out evaluation after training"}


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
