"""A temperature that changes from step to step: episodes and log-probs have the same distribution."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.rollout.stage import task
from tests.run.stage import recipe
from tests.run.test_train import UNMEASURED, lines, run_it
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import read_episodes
from turnwise.run.training_run import TrainingRun
from turnwise.tasks.load import save
from turnwise.tasks.temperatures import FamilyTemperatures


def at_temperatures(folder: Path, mode: str, **sections: Any) -> tuple[Recipe, RunFolder]:
    settings = recipe(
        folder,
        run={"num_steps": 3, "mode": mode},
        rollout={"temperature": 1.6, "final_temperature": 0.4, "lockstep": mode == "sync"},
        reference={"kind": "frozen"},
        **UNMEASURED,
        **sections,
    )
    return settings, run_it(settings)[1]


def test_each_family_is_sampled_and_trained_at_its_own_temperature(tmp_path: Path) -> None:
    """At learning rate 0 sampler and trainer agree on every token of a batch with two temperatures."""
    wanted = {"a": 1.5, "b": 1.0}

    def heat(run: TrainingRun) -> None:
        hooked: Any = run
        inner = run.new_collector
        hooked.new_collector = lambda step, starts, _: inner(step, starts, FamilyTemperatures(wanted))

    settings = recipe(tmp_path, optimizer={"learning_rate": 0.0}, rollout={"temperature": 0.8}, **UNMEASURED)
    save([task(f"train{number}", family="ab"[number % 2]) for number in range(6)], tmp_path / "train.jsonl")
    folder = run_it(settings, heat)[1]
    temperatures = set()
    for step, line in enumerate(lines(folder, "update")):
        assert line["metrics"]["sampler/max_abs_difference"] <= 1e-4
        assert line["metrics"]["tokens/alignment"] == 1.0
        figures = lines(folder, "rollout")[step]["metrics"]
        for played in read_episodes(folder.trajectories(step)):
            family, temperature = played.trajectory.task.family, played.trajectory.temperature
            assert temperature == figures[f"temperature/{family}"] == 0.8 * wanted[family]
            temperatures.add(temperature)
    assert len(temperatures) == 2


def test_the_temperature_goes_in_a_straight_line_from_the_first_step_to_the_last() -> None:
    keys = ["rollout.temperature=1.6", "rollout.final_temperature=0.4", "run.num_steps=4"]
    falling = read_recipe(None, parse_settings(keys))
    assert [falling.temperature_at(step) for step in range(4)] == pytest.approx([1.6, 1.2, 0.8, 0.4])
    assert read_recipe(None, parse_settings([*keys, "run.num_steps=1"])).temperature_at(0) == 1.6
    assert read_recipe(None, {"rollout.temperature": 0.7}).temperature_at(9) == 0.7


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_sampler_trainer_and_reference_agree_at_every_temperature(tmp_path: Path, mode: str) -> None:
    # at learning rate 0 the weights never change, so both sides must agree whatever version sampled a token
    settings, folder = at_temperatures(tmp_path, mode, optimizer={"learning_rate": 0.0})
    updates = lines(folder, "update")
    assert [line["metrics"]["rollout/temperature"] for line in lines(folder, "rollout")] == pytest.approx(
        [1.6, 1.0, 0.4]
    )
    for step, line in enumerate(updates):
        assert line["metrics"]["sampler/max_abs_difference"] <= 1e-4
        assert line["metrics"]["tokens/alignment"] == 1.0
        assert line["metrics"]["kl/reference"] == 0.0, "the weights changed"
        temperatures = {played.trajectory.temperature for played in read_episodes(folder.trajectories(step))}
        assert temperatures == {settings.temperature_at(step)}
    # of a random model: the hotter, the more random
    entropies = [line["metrics"]["entropy/mean"] for line in updates]
    assert entropies == sorted(entropies, reverse=True)
    assert len(set(entropies)) == 3


def test_the_first_ratio_is_one_while_the_policy_learns_and_the_temperature_changes(tmp_path: Path) -> None:
    _, folder = at_temperatures(tmp_path, "sync", algorithm={"correction": "bypass"})
    for line in lines(folder, "update"):
        figures = line["metrics"]
        assert figures["update/num_optimizer_steps"] == 1
        # bypass: the ratio is to what was sampled, so that another temperature would show in it
        assert figures["ratio/mean"] == pytest.approx(1.0, abs=1e-4)
        assert figures["ratio/std"] < 1e-4
        assert math.isfinite(figures["gradient/norm"])
