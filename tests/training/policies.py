"""Tiny policies with noise in their weights, and gradients of a loss that distinguishes every token."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from tests.engines.models import SIZES, llama, qwen3
from turnwise.config.training import PolicyConfig
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy, Scores
from turnwise.training.update.scoring import Passes

LORA = PolicyConfig(lora_rank=4, lora_alpha=8)
FULL = PolicyConfig(tuning="full")
CONFIGS = {"lora": LORA, "full": FULL}
Gradients = dict[str, Tensor]


def gpt_neox() -> Any:
    """Biases, partial rotary positions, parallel residual, one key head per query head."""
    torch.manual_seed(2)
    ignored = ("head_dim", "num_key_value_heads", "eos_token_id", "pad_token_id")
    sizes = {name: size for name, size in SIZES.items() if name not in ignored} | {"num_hidden_layers": 2}
    return GPTNeoXForCausalLM(GPTNeoXConfig(**sizes)).eval()


MODELS = {"qwen3": qwen3, "llama": llama, "gpt_neox": gpt_neox}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
both_tunings = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def tolerance(make: Callable[[], Any]) -> float:
    """For gradients of a model in fp64, whose norms are in fp32 in all but gpt_neox."""
    return 1e-8 if make is gpt_neox else 2e-6  # on ARM, torch's activations in fp64 differ by 2e-9


def plain_twin(make: Callable[[], Any], policy: Policy) -> Any:
    """A model of transformers with the policy's weights."""
    plain = make()
    plain.load_state_dict(policy.weights(), strict=False)  # a tied head has one name
    return plain


def add_noise(policy: Policy, scale: float = 0.05) -> None:
    """Add noise to what learns: a LoRA B of zero would hide A, and a value head of zero would hide all."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in [*policy.trainable.values(), *policy.value_parameters.values()]:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(scale * noise.to(parameter.dtype))


def noisy_policy(make: Callable[[], Any], config: PolicyConfig = LORA, **more: Any) -> Policy:
    policy = Policy(make(), config, **more)
    add_noise(policy)
    return policy


def weighted(columns: Sequence[Tensor | None], mask_BT: Tensor) -> Tensor:
    """A loss in which every token of every sample has another weight, given by its row's content."""
    total = torch.zeros((), dtype=torch.float64)
    for number, column in enumerate(columns):
        if column is not None:
            places = torch.arange(1, mask_BT.shape[1] + 1, dtype=torch.float64)
            lengths = mask_BT.sum(1, keepdim=True)
            total = total + (column.double() * mask_BT * torch.cos(places * (number + 1) + lengths)).sum()
    return total


def loss_of(scores: Scores) -> Tensor:
    """A loss of log-probs, entropies and values together."""
    loss = weighted([scores.logprobs_BT, scores.entropy_BT, scores.values_BT], scores.mask_BT)
    if scores.bootstrap_B is not None:
        loss = loss + (scores.bootstrap_B.double() * scores.mask_BT.sum(1)).sum()
    return loss


def gradients(policy: Policy, parts: Sequence[Sequence[Sample]], **options: Any) -> Gradients:
    """The sum over parts that are scored one by one."""
    with collected(policy) as found:
        for part in parts:
            loss_of(policy.score(part, **options)).backward()
    return found


def pass_gradients(policy: Policy, samples: Sequence[Sample], tokens: int, **options: Any) -> Gradients:
    """The sum over the micro-batches of one pass, as in the trainer."""
    with collected(policy) as found:
        run = Passes(policy, tokens_per_microbatch=tokens).begin(samples, **options)
        for part in run.parts:
            loss_of(run.score(part)).backward()
        run.backward()
    return found


@contextmanager
def collected(policy: Policy) -> Iterator[Gradients]:
    """The gradients that the block computes; zeros where there is none."""
    values = {f"value {name}": parameter for name, parameter in policy.value_parameters.items()}
    parameters = {**policy.trainable, **values}
    for parameter in parameters.values():
        parameter.grad = None
    found: Gradients = {}
    yield found
    for name, parameter in parameters.items():
        found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


def relative_gaps(found: Sequence[Tensor], expected: Sequence[Tensor]) -> list[float]:
    """The largest difference in every pair of tensors, relative to the largest expected entry."""
    assert [one.shape for one in found] == [other.shape for other in expected]
    return [
        ((one.double() - other).abs().max() / other.abs().max().clamp(min=1e-30)).item()
        for one, other in zip(found, expected, strict=True)
    ]


def largest_gap(expected: Gradients, found: Gradients) -> float:
    """The largest relative gap."""
    assert expected.keys() == found.keys()
    return max(relative_gaps([found[name] for name in expected], list(expected.values())))
