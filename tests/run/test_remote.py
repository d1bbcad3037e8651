"""A run that samples elsewhere learns what it learns with the engine in process, bit for bit."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.engines.served import serving
from tests.run.stage import write_recipe
from tests.run.test_train import run_it
from turnwise.config import Recipe, load_recipe
from turnwise.doctor import FindingLevel
from turnwise.doctor.recipe import check_remote
from turnwise.protocols import Adapter
from turnwise.rollout.store import read_episodes
from turnwise.run.loop import train
from turnwise.run.screen import Screen
from turnwise.run.stopping import Stopping
from turnwise.run.training_run import open_run
from turnwise.tracking.folder import RunFolder
from turnwise.training.update import checkpoint

NUM_STEPS = 2


def elsewhere(file: Path, url: str, *overrides: str) -> Recipe:
    return load_recipe(file, ["engine.kind=remote", f"engine.remote.url={url}", *overrides])


def sampled(folder: RunFolder) -> list[tuple[object, ...]]:
    played = [episode for step in range(NUM_STEPS) for episode in read_episodes(folder.trajectories(step))]
    return sorted(
        (one.trajectory.episode_id, one.trajectory.token_ids, one.trajectory.logprobs) for one in played
    )


def test_a_run_with_the_engine_elsewhere_is_the_run_with_the_engine_here(tmp_path: Path) -> None:
    quick = {"run": {"num_steps": NUM_STEPS}, "evaluation": {"before_and_after": False}}
    here, file = write_recipe(tmp_path / "here", **quick), write_recipe(tmp_path / "there", **quick)
    _, expected = run_it(load_recipe(here))
    with serving(file, python=sys.executable) as server:
        _, adapters = run_it(elsewhere(file, server.url, "run.name=one", "rollout.lockstep=false"))
        assert (server.health()["version"], server.health()["base"]) == (NUM_STEPS, "")
        assert asyncio.run(check_remote(elsewhere(file, server.url))).level is FindingLevel.GOOD
        # a server that another run has used
        _, folder = run_it(elsewhere(file, server.url, "run.name=two", "engine.adapters=false"))
        with pytest.raises(ValueError, match="over other whole weights"):
            run_it(elsewhere(file, server.url, "run.name=three"))
    assert sampled(folder) == sampled(expected)
    learned = [checkpoint.latest(run.checkpoints) for run in (folder, expected)]
    for one, other in zip(
        *(tensor.tensors.values() for tensor in learned if tensor is not None), strict=True
    ):
        assert one.equal(other)
    assert len(sampled(adapters)) == len(sampled(expected))


async def test_an_adapter_is_handed_over_beside_the_update_that_follows(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, evaluation={"before_and_after": False})
    keys = ("run.mode=async", "run.num_steps=4", "rollout.lockstep=false")
    beside, published = [], []

    async def go(settings: Recipe) -> None:
        with RunFolder.create(settings.run.folder, "run", settings, is_dated=False) as folder:
            async with open_run(settings, folder, Screen(Console(quiet=True), settings)) as run:
                engine: Any = run.bench.engine
                publish, complete, update = engine.publish, engine.complete, run.trainer.update
                under_way = set[int]()

                async def slow(adapter: Adapter, version: int) -> None:
                    under_way.add(version)
                    before = adapter.copy()
                    await asyncio.sleep(1.0)  # longer than an update
                    kept = [one.equal(other) for one, other in paired(adapter, before)]
                    await publish(adapter, version)
                    published.append((version, all(kept)))
                    under_way.discard(version)

                async def sampled_after(*args: Any) -> Any:
                    assert published, "nothing samples before the engine has the trainer's weights"
                    return await complete(*args)

                def noted(*args: Any, **options: Any) -> Any:
                    beside.extend(under_way)
                    return update(*args, **options)

                engine.publish, engine.complete = slow, sampled_after
                run.trainer.update = noted  # type: ignore[method-assign]
                await train(run, Stopping())
            figures = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
            updates = [figure["metrics"] for figure in figures if figure["kind"] == "update"]
            assert max(update["staleness/max"] for update in updates) == 1

    with serving(file, python=sys.executable) as server:
        await go(elsewhere(file, server.url, *keys))
        assert server.health()["version"] == 4
    assert published == [(version, True) for version in range(5)], "each as it was when it was learned"
    assert beside, "an update ran before the publication that it followed was done"


def paired(one: Adapter, other: Adapter) -> list[tuple[Any, Any]]:
    return [(tensor, other.tensors[name]) for name, tensor in one.tensors.items()]


def test_an_engine_that_is_not_there_is_said_so_by_its_key(tmp_path: Path) -> None:
    file = write_recipe(tmp_path)
    finding = asyncio.run(check_remote(elsewhere(file, "http://127.0.0.1:9")))
    assert finding.level is FindingLevel.BAD
    assert "engine.remote.url: http://127.0.0.1:9 is not there" in finding.detail
