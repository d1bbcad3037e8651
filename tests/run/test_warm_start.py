"""A run with a warm start learns the demonstrations first, once, and RL starts from that model."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.rollout.stage import task
from tests.shown import recipe_in, sound_setup
from turnwise.api.run import Run
from turnwise.config import Recipe
from turnwise.records.ending import How
from turnwise.records.folder import RunFolder
from turnwise.run.checks.dry import dry_run, to_check
from turnwise.run.command import train_run
from turnwise.run.demonstrations.warm_up import METRICS
from turnwise.run.resumption import resume_command
from turnwise.setup.request import RunRequest
from turnwise.system.stopping import Stopping
from turnwise.tasks.load import save

WARM = (
    "run.warm_start=true",
    "run.num_steps=1",
    "policy.tuning=full",
    "optimizer.learning_rate=0.0",
    "sft.learning_rate=1e-2",
    "sft.num_epochs=60",
    "sft.until_taught=false",
    "evaluation.temperature=0",
    "evaluation.num_samples=1",
)


@pytest.fixture
def settings(tmp_path: Path) -> Recipe:
    return recipe_in(sound_setup(tmp_path), *WARM, f"tasks.test={tmp_path}/train.jsonl")


async def test_the_first_episodes_are_those_of_the_warmed_up_model(settings: Recipe, tmp_path: Path) -> None:
    trained = await train_run(RunRequest(settings), settings)
    assert trained.is_finished
    folder = RunFolder.read(trained.path)
    summary = json.loads(folder.summary.read_text())
    assert summary["heldout_success"] == {"before": 1.0, "after": 1.0}  # 0 without the demonstrations
    assert folder.recipe.model.path == str(folder.warm_model)
    learned = (folder.warm_model / METRICS).stat().st_mtime_ns
    exported = Run(folder.path).export(tmp_path / "exported")
    assert (exported / "config.json").exists()
    longer = RunRequest(run=folder.path, changes={"run.num_steps": 2})
    assert (await train_run(longer, longer.read(None))).is_finished
    assert (folder.warm_model / METRICS).stat().st_mtime_ns == learned


async def test_a_run_that_is_stopped_during_its_warm_start_can_be_resumed(settings: Recipe) -> None:
    stopping = Stopping()
    stopping.ask("Ctrl-C")
    trained = await train_run(RunRequest(settings), settings, stopping=stopping)
    assert not trained.is_finished
    folder = RunFolder.read(trained.path)
    assert folder.ending is not None
    assert folder.ending.how is How.STOPPED
    assert folder.ending.why.endswith("warm start: nothing of it is saved, it begins again")
    assert resume_command(folder).endswith(" --from-start")
    assert not folder.warm_model.exists()
    again = RunRequest(run=folder.path)
    assert (await train_run(again, again.read(None), from_start=True)).is_finished
    assert folder.warm_model.exists()


async def test_a_dry_run_counts_the_demonstrations_and_says_if_there_are_none(
    settings: Recipe, tmp_path: Path
) -> None:
    dry = await dry_run(to_check(settings))
    assert "warm start: 60 epochs of 1 demonstration" in dry.lines
    save([task("bare")], tmp_path / "train.jsonl")
    [problem] = (await dry_run(to_check(settings))).problems
    assert problem.startswith("run.warm_start: tasks.train: no task of")


def test_several_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="num_processes is 2 and run"):
        Recipe.model_validate({"run": {"warm_start": True}, "hardware": {"num_processes": 2}})


def test_a_run_that_is_killed_before_its_rescues_begins_the_warm_start_again_bit_for_bit(
    settings: Recipe, tmp_path: Path
) -> None:
    del settings
    rescued = ("sft.num_epochs=2", "sft.rescue_rounds=1")
    quick = (*WARM, *rescued, "evaluation.before_and_after=false", "optimizer.learning_rate=1e-3")
    command = [warm.heavy(), str(Path(__file__).with_name("warm_resuming.py")), str(tmp_path), *quick]
    played = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert played.returncode == 0, played.stderr
    unbroken, broken = [RunFolder.read(tmp_path / "runs" / name) for name in ("unbroken", "broken")]
    figures = [json.loads((folder.warm_model / METRICS).read_text()) for folder in (unbroken, broken)]
    [learned] = figures[0]["rescues"]
    assert learned["num_rescued"] == 1
    for one in figures:
        for step in (*one["steps"], *one["rescues"][0]["steps"]):
            del step["seconds"]
    assert figures[0] == figures[1]
    weights = [(folder.warm_model / "model.safetensors").read_bytes() for folder in (unbroken, broken)]
    assert weights[0] == weights[1]
