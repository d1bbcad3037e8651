"""A run that samples elsewhere learns what it learns with the engine in process, bit for bit."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.engines.served import serving
from tests.run.stage import write_recipe
from tests.run.test_train import run_it
from turnwise.config import Recipe, load_recipe
from turnwise.doctor import Level
from turnwise.doctor.setup import check_remote
from turnwise.rollout.store import read
from turnwise.tracking.folder import RunFolder
from turnwise.training import checkpoint

NUM_STEPS = 2


def elsewhere(file: Path, url: str, *overrides: str) -> Recipe:
    return load_recipe(file, ["engine.kind=remote", f"engine.remote.url={url}", *overrides])


def sampled(folder: RunFolder) -> list[tuple[object, ...]]:
    played = [each for step in range(NUM_STEPS) for each in read(folder.trajectories(step))]
    return sorted(
        (one.trajectory.episode_id, one.trajectory.token_ids, one.trajectory.logprobs) for one in played
    )


def test_a_run_with_the_engine_elsewhere_is_the_run_with_the_engine_here(tmp_path: Path) -> None:
    quick = {"run": {"num_steps": NUM_STEPS}, "evaluation": {"is_before_and_after": False}}
    here, file = write_recipe(tmp_path / "here", **quick), write_recipe(tmp_path / "there", **quick)
    _, expected = run_it(load_recipe(here))
    with serving(file, python=sys.executable) as server:
        _, adapters = run_it(elsewhere(file, server.url, "run.name=one", "rollout.lockstep=false"))
        assert (server.health()["version"], server.health()["base"]) == (NUM_STEPS, "")
        assert asyncio.run(check_remote(elsewhere(file, server.url))).level is Level.GOOD
        # a server that another run has used
        _, folder = run_it(elsewhere(file, server.url, "run.name=two", "engine.remote.adapters=false"))
        with pytest.raises(ValueError, match="over other whole weights"):
            run_it(elsewhere(file, server.url, "run.name=three"))
    assert sampled(folder) == sampled(expected)
    learned = [checkpoint.latest(each.checkpoints) for each in (folder, expected)]
    for one, other in zip(*(each.tensors.values() for each in learned if each is not None), strict=True):
        assert one.equal(other)
    assert len(sampled(adapters)) == len(sampled(expected))


def test_an_engine_that_is_not_there_is_said_so_by_its_key(tmp_path: Path) -> None:
    file = write_recipe(tmp_path)
    settings = elsewhere(file, "http://127.0.0.1:9", "engine.remote.wait_seconds=0")
    with pytest.raises(ValueError, match=r"engine\.remote\.url: http://127\.0\.0\.1:9 is not there"):
        run_it(settings)
