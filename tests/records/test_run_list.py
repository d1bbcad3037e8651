"""`turnwise runs`: what is listed of runs in every state, and which of them can be removed."""

import json
from pathlib import Path

import pytest

from tests import warm
from tests.test_cli import fresh, turnwise
from turnwise.config import Recipe
from turnwise.records.ending import Ending, How
from turnwise.records.folder import RunFolder
from turnwise.records.run_list import list_runs, removable


def new_run(root: Path, name: str, *, num_steps: int = 0, ending: Ending | None = None) -> Path:
    with RunFolder.create(root, name, Recipe(), is_dated=False, recipe_file="base.toml") as folder:
        for step in range(num_steps):
            folder.log(step, "rollout", {"reward/mean": 0.5})
            folder.log(step, "update", {"loss": 1.0})
        if ending is not None:
            folder.end(ending)
        return folder.path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs that have ended: finished, crashed at its start, and killed."""
    root = tmp_path / "runs"
    new_run(root, "good", num_steps=3, ending=Ending(How.FINISHED))
    new_run(root, "bad", ending=Ending(How.CRASHED, "ValueError: tasks.train is not set\nsecond line"))
    new_run(root, "killed", num_steps=1)
    (root / "eval").mkdir()
    return root


def test_runs_are_listed_with_their_steps_and_why_they_ended(runs: Path) -> None:
    found = {run.folder.name: run for run in list_runs(runs)}
    assert {name: (run.num_steps, run.num_planned, run.state) for name, run in found.items()} == {
        "good": (3, 100, "finished"),
        "bad": (0, 100, "crashed"),
        "killed": (1, 100, "died"),
    }
    assert "tasks.train is not set" in found["bad"].reason


def test_the_success_is_that_of_the_summary_or_of_the_first_evaluation(runs: Path) -> None:
    (runs / "bad" / "versions.json").unlink()  # as of a folder that we did not make
    figures = {"figures": {"all": {"success": {"value": 0.25}}}}
    (runs / "killed" / "evaluations" / "before.json").write_text(json.dumps(figures))
    summary = {"num_steps": 3, "heldout_success": {"before": 0.25, "after": 0.75}}
    (runs / "good" / "summary.json").write_text(json.dumps(summary))
    found = {run.folder.name: (run.success_before, run.success_after) for run in list_runs(runs)}
    assert found == {"good": (0.25, 0.75), "bad": (None, None), "killed": (0.25, None)}


def test_the_command_prints_a_table_or_json(runs: Path) -> None:
    ran = turnwise("runs", cwd=runs.parent, python=fresh)
    assert ran.code == 0
    header, *rows = ran.out.splitlines()
    assert header.split() == ["run", "recipe", "model", "steps", "success", "began", "state"]
    assert [row.split()[0] for row in rows[:3]] == ["good", "bad", "killed"]
    assert all(row.split()[1:3] == ["base.toml", "embedded"] for row in rows[:3])
    assert "bad: crashed: ValueError: tasks.train is not set" in rows
    listed = json.loads(turnwise("runs", "--json", cwd=runs.parent, python=warm.light).out)
    assert {run["folder"] for run in listed} == {"runs/good", "runs/bad", "runs/killed"}
    assert turnwise("runs", "--in", "none", cwd=runs.parent, python=warm.light).out == "no runs in none\n"


def test_clean_removes_only_runs_without_a_step_and_asks_first(runs: Path) -> None:
    refused = turnwise("runs", "clean", cwd=runs.parent, python=warm.light)
    assert refused.code == 2
    assert "nothing was removed: --yes" in refused.err
    assert (runs / "bad").exists()
    assert turnwise("runs", "clean", "--yes", cwd=runs.parent, python=warm.light).code == 0
    assert {child.name for child in runs.iterdir()} == {"good", "killed", "eval"}


def test_clean_removes_a_run_that_is_named_with_or_without_its_folder(runs: Path) -> None:
    for name in ("good", "runs/killed"):
        assert turnwise("runs", "clean", name, "--yes", cwd=runs.parent, python=warm.light).code == 0
    assert {child.name for child in runs.iterdir()} == {"bad", "eval"}


def test_what_is_not_a_run_or_still_runs_is_never_removed(runs: Path) -> None:
    with pytest.raises(ValueError, match="eval: not a run's folder"):
        removable(runs, [Path("eval")])
    with RunFolder.create(runs, "now", Recipe(), is_dated=False):
        assert [run.folder.name for run in removable(runs, [])] == ["bad"]
        with pytest.raises(ValueError, match="now: the run is running"):
            removable(runs, [Path("now")])


def test_a_folder_that_turnwise_did_not_make_is_never_removed(runs: Path) -> None:
    cake = runs / "cake"
    cake.mkdir()
    (cake / "recipe.json").write_text('{"flour": "200 g"}')
    assert [run.folder.name for run in removable(runs, [])] == ["bad"]
    (cake / "versions.json").write_text('{"of the cake": 2}')
    assert [run.folder.name for run in removable(runs, [])] == ["bad"]
    with pytest.raises(ValueError, match=r"cake: its versions\.json is not that of a run"):
        removable(runs, [Path("cake")])


def test_a_link_to_a_run_is_not_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "linked").symlink_to(runs / "bad")
    assert list_runs(tmp_path / "links") == []
