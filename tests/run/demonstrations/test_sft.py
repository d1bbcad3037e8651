"""A warm start learns what the demonstrations show, with real tools, and leaves a model for every command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rollout.stage import task
from tests.setup.resolved import resolved
from tests.shown import recipe_in, shown_task, sound_setup, write_servers
from tests.test_cli import one_line, turnwise
from turnwise.config import Recipe
from turnwise.rewards import is_success
from turnwise.run.demonstrations.warm_up import METRICS, demonstrated, warm_up
from turnwise.setup.bench import open_workbench
from turnwise.tasks.load import save
from turnwise.types import Task

QUICK = ("policy.tuning=full", "sft.learning_rate=1e-2", "sft.num_epochs=60", "sft.until_taught=false")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sound_setup(tmp_path)


async def greedy_success(recipe: Recipe, played: Task) -> bool:
    async with open_workbench(resolved(recipe)) as bench:
        collector = bench.collector(group_size=1, temperature=0)
        async with collector.collecting([played], 1) as groups:
            [group] = [group async for group in groups]
            return is_success(group.trajectories[0])


async def test_a_demonstration_is_learned_and_the_folder_is_a_model(folder: Path, tmp_path: Path) -> None:
    save([shown_task(), shown_task("wrong", name="wrong"), task("bare")], folder / "train.jsonl")
    recipe = recipe_in(folder, *QUICK)
    assert not await greedy_success(recipe, shown_task())
    warm = await warm_up(resolved(recipe), tmp_path / "warm")
    assert (warm.num_lessons, dict(warm.dropped)) == (1, {"wrong": "answered, without success"})
    assert warm.steps[-1].loss < 0.05 < 3 < warm.steps[0].loss
    assert await greedy_success(recipe_in(folder, f"model.path={tmp_path}/warm"), shown_task())
    figures = json.loads((tmp_path / "warm" / METRICS).read_text())
    assert figures["num_lessons"] == 1
    assert figures["num_own_tokens"] == warm.steps[0].num_tokens
    assert len(figures["steps"]) == 60


async def test_without_verification_the_recorded_results_are_used(folder: Path, tmp_path: Path) -> None:
    save([shown_task(), shown_task("wrong", name="wrong")], folder / "train.jsonl")
    recipe = recipe_in(folder, "sft.num_epochs=1")
    warm = await warm_up(resolved(recipe), tmp_path / "warm", is_verified=False, is_adapter=True)
    assert (warm.num_lessons, dict(warm.dropped)) == (2, {})
    assert (tmp_path / "warm" / "adapter_config.json").exists()


def test_a_part_of_the_demonstrations_is_drawn_evenly_across_families(folder: Path) -> None:
    families = ["a", "a", "a", "b", "b", "b"]
    tasks = [replace(shown_task(), id=f"t{n}", family=name) for n, name in enumerate(families)]
    save([task("bare"), *tasks], folder / "train.jsonl")
    learned = {
        num: [one.id for one in demonstrated(resolved(recipe_in(folder, f"sft.num_tasks={num}")))]
        for num in (2, 9)
    }
    assert learned == {2: ["t0", "t3"], 9: ["t0", "t1", "t2", "t3", "t4", "t5"]}


async def test_demonstrations_that_all_fail_are_nothing_to_learn_from(folder: Path, tmp_path: Path) -> None:
    save([shown_task("wrong")], folder / "train.jsonl")
    with pytest.raises(
        ValueError, match="none of the 1 demonstrations earned its outcome: answered, without"
    ):
        await warm_up(resolved(recipe_in(folder)), tmp_path / "warm")
    save([task("bare")], folder / "train.jsonl")
    with pytest.raises(ValueError, match=r"no task of .*train.jsonl has a demonstration"):
        await warm_up(resolved(recipe_in(folder)), tmp_path / "warm")
    assert not (tmp_path / "warm").exists()


async def test_a_missing_device_is_reported_before_anything_is_played(folder: Path, tmp_path: Path) -> None:
    write_servers(folder, notebook={"command": "no-such-command"})
    with pytest.raises(ValueError, match=r"model\.device is 'mps', and torch finds none"):
        await warm_up(resolved(recipe_in(folder, "model.device=mps")), tmp_path / "warm")


def test_the_command_says_what_it_learned_and_dropped(folder: Path) -> None:
    save([shown_task(), shown_task("wrong", name="wrong")], folder / "train.jsonl")
    several = ("--set", "hardware.num_processes=4", "--set", "hardware.strategy=fsdp2")
    settings = ("--set", "sft.num_epochs=3", "--set", "sft.rescue_rounds=1")
    args = ("sft", "recipe.toml", "--out", "warm", *settings)
    ran = turnwise(*args, *several, cwd=folder)
    assert ran.code == 0, ran
    assert one_line(ran.err) == (
        "one process does this, with the whole model; left out: "
        "hardware.num_processes = 4, hardware.strategy = 'fsdp2'"
    )
    assert "dropped wrong: answered, without success" in ran.out
    assert "warm: learned from 1 demonstrations, 1 dropped; 3 taken, loss " in ran.out
    assert "; it ended because all epochs are done (3)" in ran.out
    assert "rescues: 1 episode played, 1 failed (" in ran.out
    # Its first turn was cut off, so its rescue is the whole plan.
    assert "; 1 rescued, 0 discarded; 0 plain demonstrations learned with them" in ran.out
    assert ran.out.count("step ") == 3 + 3
    assert {line.split()[0] for line in ran.out.splitlines()} == {"step", "dropped", "rescues:", "warm:"}
    again = turnwise(*args, cwd=folder)
    assert again.code == 2
    assert "is there already" in one_line(again.err)


async def test_learning_ends_when_probe_episodes_show_that_it_is_taught(folder: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    quick = (
        "sft.until_taught=true",
        "sft.num_epochs=90",
        "rollout.tokens_per_turn=64",
    )
    recipe = recipe_in(folder, *QUICK, *quick, "rollout.tokens_per_turn=64")
    warm = await warm_up(resolved(recipe), tmp_path / "warm", on_note=notes.append)
    last = warm.probes[-1]
    assert len(warm.steps) == last.num_steps < 90
    assert last.num_demonstrations == warm.num_taken == len(warm.steps)
    assert last.solvable == 1.0
    assert warm.why == "some try solves every task"
    assert notes[-1].startswith(f"probe after {warm.num_taken} demonstrations: ")
    figures = json.loads((tmp_path / "warm" / METRICS).read_text())
    assert (figures["num_taken"], figures["ended"]) == (warm.num_taken, warm.why)
    assert len(figures["probes"]) == len(warm.probes) == len(notes)
