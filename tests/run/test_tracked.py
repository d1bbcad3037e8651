"""A run with trackers: they get what its folder has, one that hangs delays nothing, all is private."""

import json
from pathlib import Path
from typing import Any

from tests.run.stage import write_recipe
from tests.run.test_signals import ROOT, train
from tests.test_cli import turnwise
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import read_episodes

KEEPING, HANGING = (f"tests.records.own_trackers:{name}" for name in ("Keeping", "Hanging"))


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The metrics of a line, with its alarms among them."""
    return row["metrics"] | {f"alarm/{alarm['name']}": 1.0 for alarm in row.get("alarms", ())}


def readable_by_others(folder: Path) -> list[str]:
    """Every such file but the weights, which hold nothing of what was said."""
    files = (file for file in folder.rglob("*") if file.is_file() and "checkpoints" not in file.parts)
    return sorted(str(file.relative_to(folder)) for file in files if file.stat().st_mode & 0o077)


def test_trackers_get_what_the_folder_has_and_whatever_is_written_is_private(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, evaluation={"every": 2, "num_samples": 1})
    blocks = [
        f'[[trackers]]\nkind = "{KEEPING}"\nepisodes_per_step = 4\nclose_seconds = 60\n',
        f'[[trackers]]\nkind = "{HANGING}"\nclose_seconds = 1\noptions = {{file = "hung.jsonl"}}\n',
    ]
    recipe.write_text(recipe.read_text() + "\n".join(blocks))
    ran = train(str(recipe))
    assert ran.code == 0, ran
    folder = RunFolder.read(tmp_path / "runs" / "run")
    printed = ran.out + ran.err
    assert f"warning: tracker {HANGING}: " in printed, "what was lost is on the terminal"
    assert "was killed" in printed
    assert f"{KEEPING}: {folder.path}" in printed
    assert f"tracker {KEEPING}: " not in printed
    check_tracked(folder)

    written = {str(file.relative_to(folder.path)) for file in folder.path.rglob("*") if file.is_file()}
    assert {
        *("recipe.json", "versions.json", "summary.json", "ended.json", "metrics.jsonl", "training.log"),
        *("tokenizer.json", "lock", "kept.jsonl", "trajectories/step-000001.jsonl"),
        *("tokens/step-000001.jsonl", "evaluations/before.json", "evaluations/after.trajectories.jsonl"),
    } <= written
    assert readable_by_others(folder.path) == []
    train("--resume", str(folder.path), "--set", "run.num_steps=4", "--set", "trackers=[]")
    assert folder.trajectories(3).is_file()
    assert readable_by_others(folder.path) == []
    out = tmp_path / "measured"
    turnwise("eval", str(folder.path), "-k", "1", "--out", str(out / "eval.json"), cwd=ROOT)
    turnwise("rollout", str(recipe), "--groups", "1", "--out", str(out / "rollout.jsonl"), cwd=ROOT)
    assert len(list(out.iterdir())) == 3
    assert readable_by_others(out) == []


def check_tracked(folder: RunFolder) -> None:
    tracked = [json.loads(line) for line in (folder.path / "kept.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [line[1:] for line in tracked if line[0] == "log"] == [[row["step"], figures(row)] for row in rows]
    ratios = [row["histograms"]["ratio"] for row in rows if row["kind"] == "update"]
    assert [line[3:] for line in tracked if line[0] == "histogram"] == [
        [ratio["edges"], ratio["counts"]] for ratio in ratios
    ]
    for step in range(3):
        played = {
            episode.trajectory.task.prompt[0].content for episode in read_episodes(folder.trajectories(step))
        }
        [questions] = [line[2] for line in tracked if line[0] == "episodes" and line[1] == step]
        assert len(questions) == 4
        assert set(questions) <= played
    evaluations = [line[1:] for line in tracked if line[0] == "evaluation"]
    assert [evaluation[:2] for evaluation in evaluations] == [
        ["before", 0],
        ["validation", 2],
        ["validation", 3],
        ["after", 3],
    ]
    report = json.loads((folder.evaluations / "after.json").read_text())
    assert evaluations[3][2]["success"] == report["figures"]["all"]["success"]["value"]
    assert tracked[-1] == ["close"]
