"""Tiny trainers, samples with the log-probs of the model that is trained, and the gradient of REINFORCE."""

import copy
import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.engines.models import SIZES
from tests.training.samples import GIVEN, OWN, plain_logprobs, sample
from turnwise.config import Recipe
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.trainer import Trainer

VOCAB = 60


@cache
def _model(seed: int) -> Any:
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
    config = Qwen3Config(**SIZES | sizes | {"vocab_size": VOCAB}, tie_word_embeddings=True)
    return Qwen3ForCausalLM(config).eval()


def new_model(seed: int = 0) -> Any:
    return copy.deepcopy(_model(seed))


@torch.no_grad()
def sample_of(
    turns: Sequence[tuple[Sequence[int], Sequence[int]]], *, model: Any = None, **fields: Any
) -> Sample:
    """Turns as (new ids, completion), with the log-probs of the model."""
    parts = [part for given, own in turns for part in ((GIVEN, given), (OWN, own))]
    one = sample(*parts, **fields)
    scored = (0.0, *plain_logprobs(model or _model(0), one.token_ids).tolist())
    logprobs = tuple(value * own for value, own in zip(scored, one.loss_mask, strict=True))
    return dataclasses.replace(one, logprobs=logprobs)


@cache
def some_samples(
    num_groups: int = 3, size: int = 4, *, seed: int = 0, model: Any = None, prefix: int = 20
) -> tuple[Sample, ...]:
    """Groups that share a prefix; members have two turns, and every group has rewards of both 0 and 1."""
    source = random.Random(seed)

    def ids(count: int) -> list[int]:
        return [source.randrange(VOCAB) for _ in range(count)]

    tools = ids(prefix)
    samples = []
    for group in range(num_groups):
        prompt = [*tools, *ids(4)]
        for member in range(size):
            turns = [(prompt, ids(source.randint(2, 6))), (ids(3), ids(source.randint(1, 5)))]
            reward = float(member in (0, group + 1))
            samples.append(sample_of(turns, group=group, reward=reward, model=model))
    return tuple(samples)


def recipe_of(settings: Mapping[str, Any] | None = None, **sections: Any) -> Recipe:
    """Full fine-tuning, no clipping by norm, and an epsilon under which a step is smooth in the gradient."""
    given: dict[str, Any] = {
        "policy": {"tuning": "full"},
        "optimizer": {"learning_rate": 1e-2, "epsilon": 1e-2, "max_gradient_norm": 1e9},
    }
    for section, values in {**(settings or {}), **sections}.items():
        given[section] = {**given.get(section, {}), **values} if isinstance(values, Mapping) else values
    return Recipe.model_validate(given)


def new_trainer(recipe: Recipe, *, model: Any = None, device: str = "cpu") -> Trainer:
    value = recipe.value if recipe.algorithm.advantage == "gae" else None
    return Trainer(Policy(model or new_model(), recipe.policy, value=value, device=device), recipe)


def gradients(trainer: Trainer, beta: float = 0.9) -> dict[str, Tensor]:
    """The gradients of a trainer's first optimizer step: AdamW's first moment divided by 1 − β."""
    return {
        name.removeprefix("optimizer/").removesuffix("/exp_avg"): tensor / (1 - beta)
        for name, tensor in trainer.tensors().items()
        if name.endswith("/exp_avg")
    }


def frozen(trainer: Trainer) -> dict[str, Tensor]:
    """Copies of all of its tensors."""
    return {name: tensor.clone() for name, tensor in trainer.tensors().items()}


def different(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> list[str]:
    """Names of tensors that are not bit for bit the same."""
    assert left.keys() == right.keys()
    return [name for name in left if not torch.equal(left[name], right[name])]


def copy_of(trainer: Trainer) -> Any:
    """A plain model of the policy's weights."""
    model = new_model()
    model.load_state_dict(trainer.policy.weights(), strict=False)
    return model


def shifted(samples: Sequence[Sample], by: float) -> list[Sample]:
    """As if the sampler had found every own token e^by times as likely."""

    def logprobs(one: Sample) -> tuple[float, ...]:
        return tuple(value + by * own for value, own in zip(one.logprobs, one.loss_mask, strict=True))

    return [dataclasses.replace(one, logprobs=logprobs(one)) for one in samples]


def without_reward(samples: Sequence[Sample]) -> list[Sample]:
    return [dataclasses.replace(one, reward=0.0, turn_rewards=(0.0, 0.0)) for one in samples]


def push(policy: Policy, factor: float) -> None:
    """Scale the weights that learn."""
    with torch.no_grad():
        for parameter in policy.trainable.values():
            parameter.mul_(factor)


def spoiled(samples: Sequence[Sample]) -> list[Sample]:
    """One reward is NaN."""
    return [dataclasses.replace(samples[0], reward=math.nan, turn_rewards=(0.0, math.nan)), *samples[1:]]


def assert_close(left: dict[str, Tensor], right: dict[str, Tensor], tolerance: float = 2e-6) -> None:
    """Equal up to `tolerance` of the largest entry."""
    assert left.keys() == right.keys()
    largest = max(float(tensor.abs().max()) for tensor in right.values())
    assert largest > 1e-3, "nothing is compared"
    for name, tensor in left.items():
        torch.testing.assert_close(tensor, right[name], rtol=0, atol=tolerance * max(largest, 1.0))


def centred(samples: Sequence[Sample]) -> list[float]:
    """The rewards minus the mean of their group."""
    return [
        sample.reward
        - sum(other.reward for other in samples if other.group == sample.group)
        / sum(other.group == sample.group for other in samples)
        for sample in samples
    ]


def reinforce(
    samples: Sequence[Sample], advantage_B: Sequence[float], *, model: Any = None
) -> dict[str, Tensor]:
    """The gradient of −Σ A·log π over the number of own tokens, one sample at a time, without a trainer."""
    model = model or new_model()
    num_tokens = sum(one.num_own_tokens for one in samples)
    for one, advantage in zip(samples, advantage_B, strict=True):
        own = torch.tensor(one.loss_mask[1:], dtype=torch.bool)
        loss = -advantage * plain_logprobs(model, one.token_ids)[own].sum() / num_tokens
        loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def limit(model: Any, tokens: int) -> list[int]:
    """Make the last layer run out of memory above this number of tokens; return the sizes of its passes."""
    seen: list[int] = []

    def refuse(layer: Any, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0].shape[0] * args[0].shape[1])
        if seen[-1] > tokens:
            raise torch.OutOfMemoryError(f"{seen[-1]} tokens are too many")

    model.model.layers[-1].register_forward_pre_hook(refuse)
    return seen
