"""Two processes learn the same as one: gradients, weights and metrics of every kind of update."""

import math
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.system.ranks import launched
from tests.system.ranks.updates import SCENARIOS, check_same_update
from turnwise.training.sharding.strategies import STRATEGIES

Outcomes = dict[str, dict[str, Any]]

SHORT = ("full", "frozen reference", "bfloat16")
"""The updates of ZeRO-3 that run in CI: it shares all but a few lines with FSDP2."""


def case(strategy: str, name: str) -> Any:
    is_slow = strategy == "zero3" and name not in SHORT
    return pytest.param(strategy, name, marks=pytest.mark.slow if is_slow else ())


@pytest.fixture(scope="session")
def by_two(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[Outcomes]]:
    """The outcomes of both processes under a strategy, for the updates of the selected tests."""

    @cache
    def outcomes(strategy: str) -> list[Outcomes]:
        if strategy == "zero3" and find_spec("deepspeed") is None:
            pytest.skip("DeepSpeed is missing: run `make ready`")
        folder = tmp_path_factory.mktemp("ranks")
        items: list[Any] = request.session.items
        selected = [item.callspec.params for item in items if item.path == Path(__file__)]
        names = sorted({params["name"] for params in selected if params["strategy"] == strategy})
        done = launched.by_two("tests.system.ranks.ranked", strategy, str(folder), "cpu", *names)
        assert done.returncode == 0, done.stdout + done.stderr
        return [torch.load(folder / f"{strategy}-{rank}.pt", weights_only=False) for rank in range(2)]

    return outcomes


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        case(strategy, name)
        for name in SCENARIOS
        for strategy in sorted(STRATEGIES)
        if name != "out of memory" or strategy == "data_parallel"  # a sharded pass cannot be repeated
    ],
)
def test_two_processes_learn_the_same_as_one_and_have_the_same_bits(
    strategy: str, name: str, by_two: Callable[[str], list[Outcomes]]
) -> None:
    first, second = (outcomes[name] for outcomes in by_two(strategy))
    if "refused" in first:
        pytest.skip(first["refused"])
    check_same_bits(first, second)
    # in bfloat16 another order of rounding changes about one hundredth; moments are in fp32
    check_same_update(first, name, 2e-2 if SCENARIOS[name].dtype is torch.bfloat16 else 1e-5)
    for key, tensor in first["tensors"].items():
        if "embed_tokens" in key and key.startswith("policy/"):
            held = [outcome["num_held"][key] for outcome in (first, second)]
            assert held == [tensor.numel() // (1 if strategy == "data_parallel" else 2)] * 2


def check_same_bits(first: dict[str, Any], second: dict[str, Any]) -> None:
    for part in ("tensors", "weights"):
        assert first[part].keys() == second[part].keys()
        for name, tensor in first[part].items():
            assert torch.equal(tensor, second[part][name]), name
    for figure, value in first["metrics"].items():
        if not figure.startswith("time/"):
            assert second["metrics"][figure] == value or math.isnan(value), figure
