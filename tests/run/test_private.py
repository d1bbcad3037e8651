"""What a run writes is readable by its owner alone, whatever the umask."""

import subprocess
from pathlib import Path

from tests import warm
from tests.run.stage import write_recipe

TRACKER = 'trackers=["tests.tracking.own_trackers:Keeping"]'


def turnwise(*words: str) -> None:
    ran = subprocess.run(
        [warm.heavy(), "-m", "turnwise", *words],
        umask=0o022,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr


def readable_by_others(folder: Path) -> list[str]:
    """Every file but the weights, which tell nothing of what was said."""
    files = (file for file in folder.rglob("*") if file.is_file() and "checkpoints" not in file.parts)
    return sorted(str(file.relative_to(folder)) for file in files if file.stat().st_mode & 0o077)


def test_episodes_logs_and_reports_are_private_also_after_a_resume_and_an_evaluation(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        run={"num_steps": 2, "checkpoint_every": 1},
        evaluation={"every": 1, "num_samples": 1, "num_tasks": 1},
    )
    run = tmp_path / "runs" / "run"
    turnwise("train", str(recipe), "--set", TRACKER)
    written = {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()}
    assert {
        *("recipe.json", "versions.json", "summary.json", "ended.json", "metrics.jsonl", "training.log"),
        *("tokenizer.json", "lock", "kept.jsonl", "trajectories/step-000001.jsonl"),
        *("tokens/step-000001.jsonl", "evaluations/before.json", "evaluations/after.trajectories.jsonl"),
    } <= written
    assert readable_by_others(run) == []
    turnwise("train", "--resume", str(run), "--set", "run.num_steps=3")
    assert (run / "trajectories" / "step-000002.jsonl").is_file()
    assert readable_by_others(run) == []
    out = tmp_path / "measured"
    turnwise("eval", str(run), "-k", "1", "--out", str(out / "eval.json"))
    turnwise("rollout", str(recipe), "--groups", "1", "--out", str(out / "rollout.jsonl"))
    assert len(list(out.iterdir())) == 3
    assert readable_by_others(out) == []
