"""Tiny policies, and samples whose recorded log-probs are those of the very model that is then trained."""

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

from turnwise.config import Recipe
from turnwise.training.model.policy import Policy
from turnwise.training.packing.samples import Sample
from turnwise.training.update.trainer import Trainer

VOCAB = 60


@cache
def _model(seed: int) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        # ten times the usual: attention that is nearly uniform would hide a wrong position
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config).eval()


def new_model(seed: int = 0) -> Any:
    return copy.deepcopy(_model(seed))


def plain_logprobs(model: Any, token_ids: Sequence[int]) -> Tensor:
    """Of every token but the first, each given those before it; by transformers' own forward pass."""
    logits_NV = model(torch.tensor([token_ids])).logits[0].float()
    targets_N1 = torch.tensor(token_ids[1:])[:, None]
    return logits_NV[:-1].log_softmax(-1).gather(1, targets_N1)[:, 0]


@torch.no_grad()
def sample_of(
    turns: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    group: int = 0,
    reward: float = 0.0,
    turn_rewards: Sequence[float] | None = None,
    is_truncated: bool = False,
    model: Any = None,
    policy_version: int = 0,
) -> Sample:
    """Turns as (new ids, completion); the outcome is paid on the last one unless `turn_rewards` says more."""
    ids, mask, numbers = [], [], []
    for number, (new_ids, completion) in enumerate(turns):
        ids += [*new_ids, *completion]
        mask += [0] * len(new_ids) + [1] * len(completion)
        numbers += [-1] * len(new_ids) + [number] * len(completion)
    scored = [0.0, *plain_logprobs(model or _model(0), ids).tolist()]
    return Sample(
        token_ids=tuple(ids),
        loss_mask=tuple(mask),
        logprobs=tuple(value if flag else 0.0 for value, flag in zip(scored, mask, strict=True)),
        turns=tuple(numbers),
        group=group,
        task_id=f"task-{group}",
        reward=reward,
        turn_rewards=tuple(turn_rewards or (*(0.0,) * (len(turns) - 1), reward)),
        is_truncated=is_truncated,
        policy_version=policy_version,
    )


def some_samples(
    num_groups: int = 3, size: int = 4, *, seed: int = 0, model: Any = None, prefix: int = 20
) -> tuple[Sample, ...]:
    """Groups that share a prefix; members have two turns and rewards of 0 or 1, both in each."""
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
    """Of a trainer's first optimizer step: AdamW's first moment is then (1 − β) times the gradient."""
    return {
        name.removeprefix("optimizer/").removesuffix("/exp_avg"): tensor / (1 - beta)
        for name, tensor in trainer.tensors().items()
        if name.endswith("/exp_avg")
    }


def frozen(trainer: Trainer) -> dict[str, Tensor]:
    """All of its tensors as they are now."""
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
    """As if the sampler had thought each token e^by times as likely."""
    return [
        dataclasses.replace(
            sample,
            logprobs=tuple(
                value + by if own else 0.0
                for value, own in zip(sample.logprobs, sample.loss_mask, strict=True)
            ),
        )
        for sample in samples
    ]


def spoiled(samples: Sequence[Sample]) -> list[Sample]:
    """One reward is not a number."""
    return [dataclasses.replace(samples[0], reward=math.nan, turn_rewards=(0.0, math.nan)), *samples[1:]]


def assert_close(left: dict[str, Tensor], right: dict[str, Tensor], tolerance: float = 2e-6) -> None:
    """To `tolerance` of the largest entry."""
    assert left.keys() == right.keys()
    largest = max(float(tensor.abs().max()) for tensor in right.values())
    assert largest > 1e-3, "nothing is compared"
    for name, tensor in left.items():
        torch.testing.assert_close(tensor, right[name], rtol=0, atol=tolerance * max(largest, 1.0))


def centred(samples: Sequence[Sample]) -> list[float]:
    """Each reward less its group's mean, found by looking through all of them."""
    return [
        sample.reward
        - sum(other.reward for other in samples if other.group == sample.group)
        / sum(other.group == sample.group for other in samples)
        for sample in samples
    ]


def reinforce(
    samples: Sequence[Sample], advantage_B: Sequence[float], *, model: Any = None
) -> dict[str, Tensor]:
    """−Σ A·log π over the number of own tokens: written again, one sample at a time, no trainer involved."""
    model = model or new_model()
    num_tokens = sum(sum(sample.loss_mask) for sample in samples)
    for sample, advantage in zip(samples, advantage_B, strict=True):
        own = torch.tensor(sample.loss_mask[1:], dtype=torch.bool)
        loss = -advantage * plain_logprobs(model, sample.token_ids)[own].sum() / num_tokens
        loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}
