"""Two processes learn what one learns: gradients, weights and figures of every kind of update."""

import math
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from tests.distributed import launched
from tests.distributed.updates import FIGURES, SCENARIOS, joined, learn, new_trainer
from turnwise.training.sharding import STRATEGIES

Outcomes = dict[str, dict[str, Any]]


@pytest.fixture(scope="session", params=sorted(STRATEGIES))
def by_two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Outcomes]:
    """What each of two processes came to."""
    if request.param == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is not installed")
    folder = tmp_path_factory.mktemp("ranks")
    found = launched.by_two("tests.distributed.ranked", request.param, str(folder))
    assert found.returncode == 0, found.stdout + found.stderr
    return [torch.load(folder / f"{request.param}-{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_learn_what_one_does(name: str, by_two: list[Outcomes]) -> None:
    first = by_two[0][name]
    if "refused" in first:
        pytest.skip(first["refused"])
    scenario = SCENARIOS[name]
    trainer = new_trainer(scenario)
    result = learn(scenario, trainer)
    expected = joined([trainer.tensors()])
    assert first["tensors"].keys() == expected.keys()
    assert first["skipped"] == result.skipped
    assert bool(result.skipped) == (name == "spoiled")
    # of what one bfloat16 holds a rounding in another order is a hundredth; moments are in fp32
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
    assert moved > 1e-6, "nothing is compared"
    for figure in FIGURES:
        assert math.isclose(
            first["metrics"][figure], result.metrics[figure], rel_tol=tolerance * 20, abs_tol=tolerance
        ), figure
    assert first["metrics"].keys() == result.metrics.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_processes_have_the_same_bits(name: str, by_two: list[Outcomes]) -> None:
    first, second = (each[name] for each in by_two)
    if "refused" in first:
        pytest.skip(first["refused"])
    for part in ("tensors", "weights"):
        assert first[part].keys() == second[part].keys()
        for tensor_name, tensor in first[part].items():
            assert torch.equal(tensor, second[part][tensor_name]), tensor_name
    for figure, value in first["metrics"].items():
        if not figure.startswith("time/"):
            assert second["metrics"][figure] == value or math.isnan(value), figure


def test_what_shards_keeps_a_part_on_each_and_data_parallel_all(by_two: list[Outcomes]) -> None:
    parts = [each["full"]["sizes"] for each in by_two]
    embedding = next(name for name in parts[0] if "embed_tokens" in name and name.startswith("policy/"))
    whole = by_two[0]["full"]["tensors"][embedding].numel()
    held = [math.prod(each[embedding]) for each in parts]
    assert held in ([whole, whole], [whole // 2, whole // 2])
