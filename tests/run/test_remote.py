"""A run with a remote engine learns what it learns with the engine in process, bit for bit."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engines.served import serving
from tests.run.stage import write_recipe
from tests.run.test_train import UNMEASURED, before_update, lines, run_it
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rollout.store import read_episodes
from turnwise.run.checks import FindingLevel
from turnwise.run.checks.model import check_remote
from turnwise.run.training_run import TrainingRun
from turnwise.training.packing.samples import Sample
from turnwise.training.update import checkpoint
from turnwise.types.protocols import Adapter

NUM_STEPS = 2


def elsewhere(file: Path, url: str, *overrides: str) -> Recipe:
    return read_recipe(file, parse_settings(["engine.kind=remote", f"engine.remote.url={url}", *overrides]))


def sampled(folder: RunFolder) -> list[tuple[object, ...]]:
    played = [episode for step in range(NUM_STEPS) for episode in read_episodes(folder.trajectories(step))]
    return sorted(
        (one.trajectory.episode_id, one.trajectory.token_ids, one.trajectory.logprobs) for one in played
    )


def test_a_run_with_a_remote_engine_equals_the_run_with_a_local_one(tmp_path: Path) -> None:
    quick = {"run": {"num_steps": NUM_STEPS}, **UNMEASURED}
    here, file = (write_recipe(tmp_path / name, **quick) for name in ("here", "there"))
    _, expected = run_it(read_recipe(here))
    with serving(file) as server:
        _, adapters = run_it(elsewhere(file, server.url, "run.name=one", "rollout.lockstep=false"))
        assert (server.health()["version"], server.health()["base"]) == (NUM_STEPS, "")
        assert asyncio.run(check_remote(server.url, is_lockstep=False)).level is FindingLevel.GOOD
        # a server that another run has used
        _, folder = run_it(elsewhere(file, server.url, "run.name=two", "engine.adapters=false"))
        with pytest.raises(ValueError, match="over other whole weights"):
            run_it(elsewhere(file, server.url, "run.name=three"))
    assert sampled(folder) == sampled(expected)
    learned = [checkpoint.load(run.checkpoints / "step-000002").tensors for run in (folder, expected)]
    assert all(tensor.equal(learned[1][name]) for name, tensor in learned[0].items())
    assert len(sampled(adapters)) == len(sampled(expected))


def test_an_adapter_is_published_during_the_update_that_follows(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, **UNMEASURED)
    keys = ("run.mode=async", "run.num_steps=4", "rollout.lockstep=false")
    concurrent: list[int] = []
    published: list[tuple[int, bool]] = []

    def prepare(run: TrainingRun) -> None:
        engine: Any = run.bench.engine
        publish, complete = engine.publish, engine.complete
        under_way = set[int]()

        async def slow(adapter: Adapter, version: int) -> None:
            under_way.add(version)
            before = adapter.copy()
            await asyncio.sleep(0.7)  # longer than an update
            is_kept = all(tensor.equal(before.tensors[name]) for name, tensor in adapter.tensors.items())
            await publish(adapter, version)
            published.append((version, is_kept))
            under_way.discard(version)

        async def sampled_after(*args: Any) -> Any:
            assert published, "nothing samples before the engine has the trainer's weights"
            return await complete(*args)

        def note(samples: Sequence[Sample], step: int) -> Sequence[Sample]:
            concurrent.extend(under_way)
            return samples

        engine.publish, engine.complete = slow, sampled_after
        before_update(note)(run)

    with serving(file) as server:
        _, folder = run_it(elsewhere(file, server.url, *keys), prepare)
        assert server.health()["version"] == 4
    assert max(line["metrics"]["staleness/max"] for line in lines(folder, "update")) == 1
    assert published == [(version, True) for version in range(5)], "unchanged since it was learned"
    assert concurrent, "an update ran before the publication that it followed was done"


def test_a_missing_engine_is_named_by_its_key() -> None:
    finding = asyncio.run(check_remote("http://127.0.0.1:9", is_lockstep=False))
    assert finding.level is FindingLevel.BAD
    assert "engine.remote.url: http://127.0.0.1:9 is not there" in finding.detail
