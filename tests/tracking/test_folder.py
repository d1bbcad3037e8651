"""A run's folder says what was run and how it went; one process writes, and a resume leaves no seam."""

import json
import logging
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnwise.config import Recipe
from turnwise.tracking.folder import RunFolder

RECIPE = Recipe.model_validate({"seed": 7, "rollout": {"group_size": 3}, "tasks": {"train": "tasks/a.jsonl"}})


def lines_of(folder: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with RunFolder.create(tmp_path / "runs", "cpu", RECIPE) as made:
        yield made


def test_what_is_run_and_by_what_stands_in_it(folder: RunFolder) -> None:
    assert folder.recipe == RECIPE
    versions = json.loads((folder.path / "versions.json").read_text())
    assert versions["seed"] == 7
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["packages"]["pydantic"]
    assert versions["git_commit"] is None


def test_in_a_repository_the_commit_is_known(folder: RunFolder, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        return subprocess.run(["git", *who, *arguments], capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    with RunFolder.create(tmp_path, "cpu", RECIPE) as made:
        versions = json.loads((made.path / "versions.json").read_text())
    assert versions["git_commit"] == git("rev-parse", "HEAD").strip()
    assert versions["is_git_clean"] is False, "the runs themselves are not committed"


def test_names_are_of_the_recipe_and_never_the_same(tmp_path: Path) -> None:
    made = [RunFolder.create(tmp_path, "my recipe/../x", RECIPE) for _ in range(3)]
    assert len({folder.path for folder in made}) == 3
    assert all(folder.path.parent == tmp_path for folder in made)
    assert all(folder.path.name.startswith("my-recipe-..-x-20") for folder in made)
    for folder in made:
        folder.close()


def test_a_name_given_by_hand_is_taken_as_it_is_and_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "mine", RECIPE, is_dated=False).close()
    assert (tmp_path / "mine" / "recipe.json").exists()
    with pytest.raises(ValueError, match=r"run\.name.*mine.*--resume"):
        RunFolder.create(tmp_path, "mine", RECIPE, is_dated=False)


def test_a_second_writer_is_told_who_the_first_is_and_readers_are_not_kept_out(folder: RunFolder) -> None:
    attempt = f"""
from pathlib import Path
from turnwise.tracking.folder import RunFolder
path = Path({str(folder.path)!r})
print(RunFolder.read(path).recipe.seed)
RunFolder.open(path)
"""
    second = subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True, check=False)
    assert second.stdout == "7\n"
    assert f"being written to by process {json.loads((folder.path / 'lock').read_text())['process']} on" in (
        second.stderr
    )
    folder.close()
    again = subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


def test_a_killed_writer_keeps_nobody_out(folder: RunFolder) -> None:
    path = folder.path
    folder.close()
    hold = f"""
import time
from pathlib import Path
from turnwise.tracking.folder import RunFolder
held = RunFolder.open(Path({str(path)!r}))
print("held", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"process {child.pid} on"):
            RunFolder.open(path)
        child.send_signal(signal.SIGKILL)
    RunFolder.open(path).close()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for look in (RunFolder.open, RunFolder.read):
        with pytest.raises(ValueError, match=r"no recipe\.json"):
            look(tmp_path)


@dataclass(frozen=True, slots=True)
class Bins:
    edges: tuple[float, ...]
    counts: tuple[int, ...]


def test_figures_are_whole_lines_of_plain_json(folder: RunFolder) -> None:
    metrics = {"loss/total": float("nan"), "ratio/max": float("inf"), "kl/old": 0.1}
    folder.log(0, "rollout", {"reward/mean": 0.5})
    folder.log(0, "update", metrics, histograms={"ratio": Bins((0.5, 2.0), (1, 2, 3))}, alarms=[Bins((), ())])
    first, second = lines_of(folder)
    assert (first["step"], first["kind"], first["metrics"]) == (0, "rollout", {"reward/mean": 0.5})
    assert second["metrics"] == {"loss/total": None, "ratio/max": None, "kl/old": 0.1}
    assert second["histograms"] == {"ratio": {"edges": [0.5, 2.0], "counts": [1, 2, 3]}}
    assert len(second["alarms"]) == 1


def test_a_torn_line_is_cut_off_before_the_next(folder: RunFolder) -> None:
    folder.log(0, "update", {"a": 1.0})
    folder.close()
    with folder.metrics.open("ab") as file:
        file.write(b'{"step": 1, "kind": "upd')
    with RunFolder.open(folder.path) as again:
        again.log(1, "update", {"a": 2.0})
        assert [line["metrics"]["a"] for line in lines_of(again)] == [1.0, 2.0]


def test_a_resume_cuts_off_what_came_after_the_checkpoint(folder: RunFolder) -> None:
    for step in range(4):
        folder.log(step, "rollout", {"a": step})
        folder.log(step, "update", {"a": step})
        folder.trajectories(step).write_text("{}\n")
        folder.tokens(step).write_text("{}\n")
    folder.tokens(1).with_suffix(".jsonl.part").write_text("{torn")
    reports = ["before", "step-000002", "step-000003", "after"]
    for name in reports:
        (folder.evaluations / f"{name}.json").write_text("{}")
        (folder.evaluations / f"{name}.trajectories.jsonl").write_text("{}\n")
    folder.summary.write_text("{}")
    folder.cut(2)
    folder.log(2, "rollout", {"a": 2})
    assert [line["step"] for line in lines_of(folder)] == [0, 0, 1, 1, 2]
    for part in ("trajectories", "tokens"):
        kept = sorted(path.name for path in (folder.path / part).iterdir())
        assert kept == ["step-000000.jsonl", "step-000001.jsonl"]
    kept = sorted(path.name for path in folder.evaluations.iterdir())
    assert kept == [
        "before.json",
        "before.trajectories.jsonl",
        "step-000002.json",
        "step-000002.trajectories.jsonl",
    ]
    assert not folder.summary.exists()


def test_episodes_of_an_evaluation_that_was_never_finished_go_too(folder: RunFolder) -> None:
    (folder.evaluations / "before.trajectories.jsonl").write_text("{}\n")
    folder.cut(0)
    assert list(folder.evaluations.iterdir()) == []


def test_what_the_modules_say_goes_to_the_log_while_the_folder_is_open(folder: RunFolder) -> None:
    logging.getLogger("turnwise.mcp.pool").info("a server was started")
    folder.close()
    folder.close()
    logging.getLogger("turnwise.mcp.pool").info("nobody writes this down")
    text = (folder.path / "training.log").read_text()
    assert "INFO turnwise.mcp.pool: a server was started" in text
    assert "nobody" not in text


def test_other_packages_than_before_are_named_in_the_log(folder: RunFolder) -> None:
    folder.close()
    path = folder.path / "versions.json"
    versions = json.loads(path.read_text())
    versions["packages"]["pydantic"] = "0.1"
    path.write_text(json.dumps(versions))
    with RunFolder.open(folder.path):
        pass
    log = (folder.path / "training.log").read_text()
    assert "pydantic 0.1 → " in log
    assert log.count("→") == 1
