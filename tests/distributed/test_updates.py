"""Two processes learn the same as one: gradients, weights and metrics of every kind of update."""

import math
import subprocess
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.distributed import launched
from tests.distributed.updates import FIGURES, SCENARIOS, joined, learn, new_trainer
from turnwise.training.sharding.strategies import STRATEGIES

Outcomes = dict[str, dict[str, Any]]
ByTwo = Callable[[str], list[Outcomes]]

SHORT = ("full", "frozen reference", "bfloat16")
"""The updates of ZeRO-3 that run in CI: it shares all but a few lines with FSDP2."""


def cases(*names: str) -> Any:
    """Every combination of a strategy with one of these updates."""
    return pytest.mark.parametrize(
        ("strategy", "name"),
        [
            pytest.param(
                strategy, name, marks=pytest.mark.slow if strategy == "zero3" and name not in SHORT else ()
            )
            for strategy in sorted(STRATEGIES)
            for name in names
        ],
    )


@pytest.fixture(scope="session")
def by_two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ByTwo:
    """The outcomes of both processes under a strategy, for the updates of the selected tests."""

    @cache
    def launch(strategy: str) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
        folder = tmp_path_factory.mktemp("ranks")
        asked = [item.callspec.params for item in request.session.items if item.path == Path(__file__)]
        names = {case["name"] for case in asked if case["strategy"] == strategy}
        return folder, launched.by_two("tests.distributed.ranked", strategy, str(folder), *sorted(names))

    def outcomes(strategy: str) -> list[Outcomes]:
        if strategy == "zero3" and find_spec("deepspeed") is None:
            pytest.skip("DeepSpeed is missing: run `make ready`")
        folder, found = launch(strategy)
        assert found.returncode == 0, found.stdout + found.stderr
        return [torch.load(folder / f"{strategy}-{rank}.pt", weights_only=False) for rank in range(2)]

    return outcomes


@cases(*SCENARIOS)
def test_two_processes_learn_the_same_as_one(strategy: str, name: str, by_two: ByTwo) -> None:
    first = by_two(strategy)[0][name]
    if "refused" in first:
        pytest.skip(first["refused"])
    scenario = SCENARIOS[name]
    trainer = new_trainer(scenario)
    result = learn(scenario, trainer)
    expected = joined([trainer.tensors()])
    assert first["tensors"].keys() == expected.keys()
    assert first["skipped"] == result.skipped
    assert bool(result.skipped) == (name == "spoiled")
    # in bfloat16 another order of rounding changes about one hundredth; moments are in fp32
    tolerance = 2e-2 if scenario.dtype is torch.bfloat16 else 5e-6
    moved = 0.0
    for tensor_name, tensor in expected.items():
        largest = max(float(tensor.double().abs().max()), 1e-3)
        found = first["tensors"][tensor_name]
        torch.testing.assert_close(found, tensor, rtol=0, atol=tolerance * largest, msg=tensor_name)
        if tensor_name.endswith("/exp_avg"):
            moved = max(moved, float(tensor.abs().max()))
    if result.skipped:
        return
    assert moved > 1e-6, "the update changes nothing"
    for figure in FIGURES:
        assert math.isclose(
            first["metrics"][figure], result.metrics[figure], rel_tol=tolerance * 20, abs_tol=tolerance
        ), figure
    assert first["metrics"].keys() == result.metrics.keys()


@cases(*SCENARIOS)
def test_both_processes_have_the_same_bits(strategy: str, name: str, by_two: ByTwo) -> None:
    first, second = (outcomes[name] for outcomes in by_two(strategy))
    if "refused" in first:
        pytest.skip(first["refused"])
    for part in ("tensors", "weights"):
        assert first[part].keys() == second[part].keys()
        for tensor_name, tensor in first[part].items():
            assert torch.equal(tensor, second[part][tensor_name]), tensor_name
    for figure, value in first["metrics"].items():
        if not figure.startswith("time/"):
            assert second["metrics"][figure] == value or math.isnan(value), figure


@cases("full")
def test_sharding_strategies_keep_a_part_on_every_rank_and_data_parallel_keeps_all(
    strategy: str, name: str, by_two: ByTwo
) -> None:
    parts = [outcomes[name]["sizes"] for outcomes in by_two(strategy)]
    embedding = next(name for name in parts[0] if "embed_tokens" in name and name.startswith("policy/"))
    whole = by_two(strategy)[0][name]["tensors"][embedding].numel()
    held = [math.prod(sizes[embedding]) for sizes in parts]
    assert held in ([whole, whole], [whole // 2, whole // 2])
