"""Tiny policies moved off their start, and gradients of a loss that tells every token from every other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from turnwise.config.training import PolicyConfig
from turnwise.training.model.policy import Policy, Scores
from turnwise.training.packing.samples import Sample
from turnwise.training.update.scoring import Passes

LORA = PolicyConfig(lora_rank=4, lora_alpha=8)
FULL = PolicyConfig(tuning="full")
CONFIGS = {"lora": LORA, "full": FULL}
Gradients = dict[str, Tensor]


def stir(policy: Policy, scale: float = 0.05) -> None:
    """Move what learns off its start: a B of zero would hide what A does, and a value of zero everything."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in [*policy.trainable.values(), *policy.value_parameters.values()]:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(scale * noise.to(parameter.dtype))


def made(make: Callable[[], Any], config: PolicyConfig = LORA, **more: Any) -> Policy:
    policy = Policy(make(), config, **more)
    stir(policy)
    return policy


def weighted(columns: Sequence[Tensor | None], mask_BT: Tensor) -> Tensor:
    """A loss in which each token of each sample has a weight of its own, given by its row's content."""
    total = torch.zeros((), dtype=torch.float64)
    for number, column in enumerate(columns):
        if column is not None:
            places = torch.arange(1, mask_BT.shape[1] + 1, dtype=torch.float64)
            lengths = mask_BT.sum(1, keepdim=True)
            total = total + (column.double() * mask_BT * torch.cos(places * (number + 1) + lengths)).sum()
    return total


def loss_of(scores: Scores) -> Tensor:
    """Of log-probs, entropies and values together."""
    loss = weighted([scores.logprobs_BT, scores.entropy_BT, scores.values_BT], scores.mask_BT)
    if scores.bootstrap_B is not None:
        loss = loss + (scores.bootstrap_B.double() * scores.mask_BT.sum(1)).sum()
    return loss


def gradients(policy: Policy, parts: Sequence[Sequence[Sample]], **options: Any) -> Gradients:
    """Added up over parts, each scored by itself."""
    with gathering(policy) as found:
        for part in parts:
            loss_of(policy.score(part, **options)).backward()
    return found


def pass_gradients(policy: Policy, samples: Sequence[Sample], tokens: int, **options: Any) -> Gradients:
    """Added up over the micro-batches of one pass, as the trainer goes about it."""
    with gathering(policy) as found:
        run = Passes(policy, tokens_per_microbatch=tokens).begin(samples, **options)
        for part in run.parts:
            loss_of(run.score(part)).backward()
        run.backward()
    return found


@contextmanager
def gathering(policy: Policy) -> Iterator[Gradients]:
    """From none to what was left behind, zeros where that is nothing."""
    parameters = policy.trainable | {
        f"value {name}": parameter for name, parameter in policy.value_parameters.items()
    }
    for parameter in parameters.values():
        parameter.grad = None
    found: Gradients = {}
    yield found
    for name, one_parameter in parameters.items():
        found[name] = (
            torch.zeros_like(one_parameter) if one_parameter.grad is None else one_parameter.grad.clone()
        )


def apart(ones: Gradients, others: Gradients) -> float:
    """The largest difference, relative to the largest entry of that tensor."""
    assert ones.keys() == others.keys()
    return max(
        ((one - others[name]).abs().max() / one.abs().max().clamp(min=1e-30)).item()
        for name, one in ones.items()
    )
