"""Every kind of update on a GPU has the gradients and weights of a CPU, with all kernels."""

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.engines.models import SIZES
from tests.gpu.device import DEVICE
from tests.system.ranks.updates import SCENARIOS, Scenario, joined, learn, new_trainer
from tests.training.updates import some_samples
from turnwise.training.packing.samples import Sample

CLOSE = 1e-4
"""The largest difference in fp32, relative to the largest entry of a tensor."""
HALF = 5e-2
"""The difference of bfloat16 on the device from fp32 on the CPU, relative to the norm of the gradient."""

LORA = {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}
ONE_SAMPLE = {"tokens_per_microbatch": 1}


def result_of(scenario: Scenario, device: str) -> tuple[dict[str, Tensor], dict[str, float]]:
    trainer = new_trainer(scenario, device=device)
    result = learn(scenario, trainer)
    return {name: tensor.cpu() for name, tensor in joined([trainer.tensors()]).items()}, result.metrics


CASES = {name: scenario for name, scenario in SCENARIOS.items() if name not in ("bfloat16", "spoiled")}
CASES["turns"] = Scenario({"algorithm": {"advantage": "turn"}})
CASES["token rows"] = Scenario({"policy": {**LORA, "lora_tokens": [5, 9, 20]}})


@cache
def by_cpu(name: str) -> tuple[dict[str, Tensor], dict[str, float]]:
    return result_of(CASES[name], "cpu")


@pytest.mark.parametrize("name", CASES)
def test_an_update_in_fp32_equals_that_of_the_cpu(name: str) -> None:
    found, metrics = result_of(CASES[name], DEVICE)
    expected, cpu_metrics = by_cpu(name)
    assert found.keys() == expected.keys()
    for key in (key for key in expected if key.endswith("/exp_avg") or key.startswith("policy/")):
        largest = max(float(expected[key].abs().max()), 1e-3)
        assert float((found[key] - expected[key]).abs().max()) <= CLOSE * largest, key
    assert metrics["loss/total"] == pytest.approx(cpu_metrics["loss/total"], abs=1e-4)
    assert metrics["gradient/norm"] == pytest.approx(cpu_metrics["gradient/norm"], rel=1e-3)


def test_a_loss_that_is_not_finite_leaves_the_weights_unchanged() -> None:
    trainer = new_trainer(SCENARIOS["spoiled"], device=DEVICE)
    before = {name: weight.cpu().clone() for name, weight in trainer.policy.weights().items()}
    assert learn(SCENARIOS["spoiled"], trainer).skipped
    assert all(weight.cpu().equal(before[name]) for name, weight in trainer.policy.weights().items())


# --- bfloat16: the flash kernels --------------------------------------------------------------------------

LAYOUTS: dict[str, Mapping[str, Any]] = {
    "one packed tree": {},
    "a carried prefix": ONE_SAMPLE,
    "padded rows": {"shared_prefix": False},
    "padded rows, one at a time": {"shared_prefix": False, **ONE_SAMPLE},
}


@cache
def _wide_model() -> Any:
    """Heads of 64 channels, which the flash kernels support, and enough rows for several blocks."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2}
    sizes |= {"head_dim": 64, "max_position_embeddings": 512, "initializer_range": 0.05}
    return Qwen3ForCausalLM(Qwen3Config(**SIZES | sizes, tie_word_embeddings=True)).eval()


def wide_model() -> Any:
    return copy.deepcopy(_wide_model())


def long_samples() -> Sequence[Sample]:
    """A prefix of 200 tokens that all share."""
    return some_samples(prefix=200, model=_wide_model())


@pytest.mark.parametrize("is_recomputed", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_in_bfloat16_is_near_that_of_the_cpu_in_fp32(
    layout: str, tuning: str, is_recomputed: bool
) -> None:
    tuned = LORA if tuning == "lora" else {"tuning": "full"}
    policy = {**tuned, "gradient_checkpointing": is_recomputed}
    scenario = Scenario(
        {"policy": policy, "update": LAYOUTS[layout]},
        long_samples,
        dtype=torch.bfloat16,
        model=wide_model,
    )
    found, metrics = result_of(scenario, DEVICE)
    expected, cpu_metrics = exact(tuning)
    assert metrics["kl/sampler"] < 1e-3, "the log-probs are those of the model in fp32, up to rounding"
    assert metrics["update/num_tokens"] == cpu_metrics["update/num_tokens"]
    keys = [key for key in expected if key.endswith("/exp_avg")]
    apart = torch.cat([(found[key].double() - expected[key].double()).flatten() for key in keys]).norm()
    size = torch.cat([expected[key].double().flatten() for key in keys]).norm()
    assert float(apart / size) < HALF


@cache
def exact(tuning: str) -> tuple[dict[str, Tensor], dict[str, float]]:
    policy = LORA if tuning == "lora" else {"tuning": "full"}
    return result_of(Scenario({"policy": policy}, long_samples, model=wide_model), "cpu")
