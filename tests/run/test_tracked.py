"""A whole run with trackers: they are told what its folder has, and one that hangs holds nothing up."""

import json
from pathlib import Path
from typing import Any

from tests.run.stage import write_recipe
from tests.run.test_signals import training
from turnwise.rollout.store import read_episodes
from turnwise.tracking.folder import RunFolder

KEEPING, HANGING = (f"tests.tracking.own_trackers:{name}" for name in ("Keeping", "Hanging"))


def kept(folder: RunFolder) -> list[list[Any]]:
    return [json.loads(line) for line in (folder.path / "kept.jsonl").read_text().splitlines()]


def figures(row: dict[str, Any]) -> dict[str, float]:
    """A line's, and each alarm as one of its own."""
    return row["metrics"] | {f"alarm/{alarm['name']}": 1.0 for alarm in row.get("alarms", ())}


def test_trackers_are_told_what_the_folder_has_and_one_that_hangs_holds_nothing_up(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, evaluation={"every": 2, "num_samples": 1})
    blocks = [
        f'[[trackers]]\nkind = "{KEEPING}"\nepisodes_per_step = 4\nclose_seconds = 60\n',
        f'[[trackers]]\nkind = "{HANGING}"\nclose_seconds = 1\noptions = {{file = "hung.jsonl"}}\n',
    ]
    recipe.write_text(recipe.read_text() + "\n".join(blocks))
    with training(str(recipe)) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(timeout=120) == 0, said
    folder = RunFolder.read(tmp_path / "runs" / "run")
    assert f"warning: tracker {HANGING}: " in said, "what was lost stands on the terminal"
    assert "was killed" in said
    assert f"{KEEPING}: {folder.path}" in said
    assert f"tracker {KEEPING}: " not in said

    told = kept(folder)
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [line[1:] for line in told if line[0] == "log"] == [[row["step"], figures(row)] for row in lines]
    ratios = [row["histograms"]["ratio"] for row in lines if row["kind"] == "update"]
    assert [line[3:] for line in told if line[0] == "histogram"] == [
        [ratio["edges"], ratio["counts"]] for ratio in ratios
    ]
    for step in range(3):
        played = {
            episode.trajectory.task.prompt[0].content for episode in read_episodes(folder.trajectories(step))
        }
        [questions] = [line[2] for line in told if line[0] == "episodes" and line[1] == step]
        assert len(questions) == 4
        assert set(questions) <= played
    evaluations = [line[1:] for line in told if line[0] == "evaluation"]
    assert [evaluation[:2] for evaluation in evaluations] == [["before", 0], ["validation", 2], ["after", 3]]
    report = json.loads((folder.evaluations / "after.json").read_text())
    assert evaluations[2][2]["success"] == report["figures"]["all"]["success"]["value"]
    assert told[-1] == ["close"]
