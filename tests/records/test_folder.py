"""A run's folder records what was run and its figures; a resumed run continues without a gap."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.records.sample_run import Bins, Fired, log_of
from turnwise.config import Recipe
from turnwise.records.folder import RunFolder

RECIPE = Recipe.model_validate({"seed": 7, "rollout": {"group_size": 3}, "tasks": {"train": "tasks/a.jsonl"}})


def lines_of(folder: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunFolder]:
    monkeypatch.chdir(tmp_path)
    with RunFolder.create(tmp_path / "runs", "cpu", RECIPE) as made:
        yield made


def test_recipe_versions_and_commit_are_recorded(folder: RunFolder, tmp_path: Path) -> None:
    assert folder.recipe == RECIPE
    versions = json.loads((folder.path / "versions.json").read_text())
    assert versions["seed"] == 7
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["packages"]["pydantic"]
    assert versions["git_commit"] is None

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        return subprocess.run(["git", *who, *arguments], capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    with RunFolder.create(tmp_path, "cpu", RECIPE) as made:
        versions = json.loads((made.path / "versions.json").read_text())
    assert versions["git_commit"] == git("rev-parse", "HEAD").strip()
    assert versions["is_git_clean"] is False, "the runs themselves are not committed"


def test_a_folder_is_named_after_its_recipe_and_date_or_exactly_as_the_user_says(tmp_path: Path) -> None:
    made = [RunFolder.create(tmp_path, "my recipe/../x", RECIPE) for _ in range(3)]
    assert len({folder.path for folder in made}) == 3
    assert all(folder.path.parent == tmp_path for folder in made)
    assert all(folder.path.name.startswith("my-recipe-..-x-20") for folder in made)
    made.append(RunFolder.create(tmp_path, "mine", RECIPE, is_dated=False))
    for folder in made:
        folder.close()
    assert (tmp_path / "mine" / "recipe.json").exists()
    with pytest.raises(ValueError, match=r"run\.name.*mine.*--resume"):
        RunFolder.create(tmp_path, "mine", RECIPE, is_dated=False)


def test_only_its_owner_can_enter_a_run(folder: RunFolder, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "named", "mine", RECIPE, is_dated=False) as named:
        modes = [made.path.stat().st_mode & 0o777 for made in (folder, named)]
    assert modes == [0o700, 0o700]


def test_a_second_writer_is_refused_until_the_first_closes_and_readers_never_are(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="being written to by process"):
        RunFolder.open(folder.path)
    assert RunFolder.read(folder.path).recipe.seed == 7
    folder.close()
    RunFolder.open(folder.path).close()


@pytest.mark.parametrize("look", [RunFolder.open, RunFolder.read])
def test_a_folder_without_a_recipe_is_not_a_run(tmp_path: Path, look: Any) -> None:
    with pytest.raises(ValueError, match=r"no recipe\.json"):
        look(tmp_path)


def test_figures_are_lines_of_plain_json(folder: RunFolder) -> None:
    metrics = {"loss/total": float("nan"), "ratio/max": float("inf"), "kl/old": 0.1}
    bins = {"ratio": Bins((0.5, 2.0), (1, 2, 3))}
    folder.log(0, "rollout", {"reward/mean": 0.5})
    folder.log(0, "update", metrics, histograms=bins, alarms=[Fired("truncation")])
    first, second = lines_of(folder)
    assert (first["step"], first["kind"], first["metrics"]) == (0, "rollout", {"reward/mean": 0.5})
    assert second["metrics"] == {"loss/total": None, "ratio/max": None, "kl/old": 0.1}
    assert second["histograms"] == {"ratio": {"edges": [0.5, 2.0], "counts": [1, 2, 3]}}
    assert len(second["alarms"]) == 1


def test_an_incomplete_last_line_is_removed_before_the_next(folder: RunFolder) -> None:
    folder.log(0, "update", {"a": 1.0})
    folder.close()
    with folder.metrics.open("ab") as file:
        file.write(b'{"step": 1, "kind": "upd')
    with RunFolder.open(folder.path) as again:
        again.log(1, "update", {"a": 2.0})
        assert [line["metrics"]["a"] for line in lines_of(again)] == [1.0, 2.0]


def test_a_resume_moves_what_is_newer_than_the_checkpoint(folder: RunFolder) -> None:
    for step in range(4):
        folder.log(step, "update", {"a": step})
        folder.trajectories(step).write_text("{}\n")
        folder.tokens(step).write_text("{}\n")
    folder.tokens(1).with_suffix(".jsonl.part").write_text("{incomplete")
    for name in ("before", "step-000002", "step-000003", "after"):
        (folder.evaluations / f"{name}.json").write_text("{}")
        (folder.evaluations / f"{name}.trajectories.jsonl").write_text("{}\n")
    (folder.evaluations / "step-000001.trajectories.jsonl").write_text("{}\n")  # has no report
    folder.summary.write_text("{}")
    before = {file.relative_to(folder.path) for file in folder.path.rglob("*.json*")}
    dropped = folder.cut(2)
    assert dropped is not None
    assert (dropped.place, dropped.steps) == (folder.path / "dropped" / "after-step-000002", range(2, 4))
    moved = {file.relative_to(dropped.place) for file in dropped.place.rglob("*.json*")}
    left = {file.relative_to(folder.path) for file in folder.path.rglob("*.json*")}
    assert before - left == moved - {Path("metrics.jsonl")}
    assert '"step":3' in (dropped.place / "metrics.jsonl").read_text()
    assert folder.cut(2) is None
    folder.log(2, "rollout", {"a": 2})
    assert [line["step"] for line in lines_of(folder)] == [0, 1, 2]
    for part in ("trajectories", "tokens"):
        names = sorted(path.name for path in (folder.path / part).iterdir())
        assert names == ["step-000000.jsonl", "step-000001.jsonl"]
    names = sorted(path.name for path in folder.evaluations.iterdir())
    kept = ("before", "step-000002")
    assert names == [f"{name}.{end}" for name in kept for end in ("json", "trajectories.jsonl")]
    assert not folder.summary.exists()


def test_every_resume_keeps_the_figures_that_it_drops(folder: RunFolder) -> None:
    for number in (1, 2):
        folder.log(2, "update", {"a": float(number)})
        dropped = folder.cut(2)
        assert dropped is not None
        assert f'"a":{number}.0' in (dropped.place / "metrics.jsonl").read_text()
    names = sorted(path.name for path in (folder.path / "dropped").iterdir())
    assert names == ["after-step-000002", "after-step-000002-2"]


def test_our_modules_log_to_the_folder_while_it_is_open(folder: RunFolder) -> None:
    logging.getLogger("turnwise.mcp.pool").info("a server was started")
    folder.close()
    folder.close()
    logging.getLogger("turnwise.mcp.pool").info("after the end")
    assert "INFO turnwise.mcp.pool: a server was started" in log_of(folder)
    assert "after the end" not in log_of(folder)


def test_a_resume_logs_which_packages_have_changed(folder: RunFolder) -> None:
    folder.close()
    path = folder.path / "versions.json"
    versions = json.loads(path.read_text())
    versions["packages"]["pydantic"] = "0.1"
    path.write_text(json.dumps(versions))
    RunFolder.open(folder.path).close()
    assert "pydantic 0.1 → " in log_of(folder)
    assert log_of(folder).count("→") == 1
