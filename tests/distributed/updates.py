"""Named updates that tests make with one process and with several."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.training.updates import new_model, recipe_of, some_samples, spoiled
from turnwise.config import Recipe
from turnwise.distributed import ALONE, Ranks
from turnwise.training.model.policy import Policy
from turnwise.training.packing.samples import Sample
from turnwise.training.sharding.shards import Shard, Shards
from turnwise.training.update.trainer import StepResult, Trainer

UNEVEN = {"tokens_per_microbatch": 1}
"""One sample per micro-batch: of an odd number, one rank has more than the other."""

KL = {"algorithm": {"kl": {"placement": "loss_k2", "coefficient": 0.5}}}
LORA = {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}


def odd_samples(prefix: int = 20) -> tuple[Sample, ...]:
    """Three groups of three: nine samples."""
    return some_samples(num_groups=3, size=3, prefix=prefix)


@dataclass(frozen=True, slots=True)
class Scenario:
    """An update: the settings, the samples, and the number of updates."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: Callable[[], Sequence[Sample]] = odd_samples
    imitation: Callable[[], Sequence[Sample]] = tuple
    num_updates: int = 1
    dtype: torch.dtype = torch.float32
    model: Callable[[], Any] = new_model

    @property
    def recipe(self) -> Recipe:
        return recipe_of(self.settings)


def few() -> tuple[Sample, ...]:
    """Fewer samples than ranks: one rank has nothing to learn from."""
    return some_samples(num_groups=1, size=2)[:1]


def without_signal() -> list[Sample]:
    """The rewards of the first group are equal: its rows need no backward pass."""
    return [
        dataclasses.replace(sample, reward=1.0) if not sample.group else sample for sample in odd_samples()
    ]


SCENARIOS = {
    "full": Scenario({"update": UNEVEN}),
    "in one part": Scenario(),
    "few": Scenario({"algorithm": {"advantage": "gae"}}, few),
    "lora": Scenario({"policy": LORA, "update": UNEVEN}),
    "carried": Scenario({"update": UNEVEN}, lambda: odd_samples(prefix=80)),
    "carried by lora": Scenario({"policy": LORA, "update": UNEVEN}, lambda: odd_samples(prefix=80)),
    "padded": Scenario({"update": {**UNEVEN, "shared_prefix": False}}),
    "recomputed": Scenario(
        {"policy": {"gradient_checkpointing": True}, "update": UNEVEN}, lambda: odd_samples(prefix=80)
    ),
    "without signal": Scenario({"update": UNEVEN}, without_signal),
    "frozen reference": Scenario({**KL, "reference": {"kind": "frozen"}, "update": UNEVEN}, num_updates=2),
    "average reference": Scenario(
        {**KL, "reference": {"kind": "ema", "decay": 0.5}, "update": UNEVEN}, num_updates=2
    ),
    "reference of lora": Scenario(
        {**KL, "policy": LORA, "reference": {"kind": "frozen"}, "update": UNEVEN}, num_updates=2
    ),
    "value": Scenario({"algorithm": {"advantage": "gae"}, "update": UNEVEN}),
    "value by an adapter": Scenario(
        {
            "policy": LORA,
            "algorithm": {"advantage": "gae"},
            "value": {"trunk": "adapter"},
            "update": UNEVEN,
        },
        lambda: odd_samples(prefix=80),
    ),
    "imitation": Scenario(
        {"imitation": {"weight": 0.5}, "update": UNEVEN}, imitation=lambda: odd_samples()[:3]
    ),
    "minibatches": Scenario({"update": {**UNEVEN, "num_epochs": 2, "num_minibatches": 2}}),
    "ratio bounds": Scenario(
        {
            "algorithm": {"min_ratio": 0.25, "max_ratio": 4.0},
            "update": {**UNEVEN, "num_epochs": 2},
        }
    ),
    "clipped": Scenario({"optimizer": {"max_gradient_norm": 0.01}, "update": UNEVEN}),
    "spoiled": Scenario({"update": UNEVEN}, lambda: spoiled(odd_samples())),
    "bfloat16": Scenario({"update": UNEVEN}, dtype=torch.bfloat16),
}

FIGURES = ("gradient/norm", "loss/total", "ratio/mean", "kl/sampler", "entropy/mean", "update/num_tokens")


def new_trainer(
    scenario: Scenario,
    ranks: Ranks = ALONE,
    make: Callable[..., Shards] | None = None,
    device: str = "cpu",
) -> Trainer:
    """The strategy moves a sharded model to its device, as in a run."""
    recipe = scenario.recipe
    value = recipe.value if recipe.algorithm.advantage == "gae" else None
    model = scenario.model().to(scenario.dtype)
    policy = Policy(model, recipe.policy, value=value, device=device if make is None else None)
    if make is not None:
        policy.shard(make, device)
    return Trainer(policy, recipe, ranks)


def learn(scenario: Scenario, trainer: Trainer) -> StepResult:
    samples, imitation = scenario.samples(), scenario.imitation()
    for step in range(scenario.num_updates):
        result = trainer.update(samples, step=step, imitation=imitation)
    return result


def joined(parts: Sequence[Mapping[str, Tensor | Shard]]) -> dict[str, Tensor]:
    """The whole tensors, joined from the shards of all ranks."""
    found: dict[str, Tensor] = {}
    for name, first in parts[0].items():
        if not isinstance(first, Shard):
            found[name] = first.clone()
            continue
        shards = [part[name] for part in parts]
        assert all(isinstance(shard, Shard) for shard in shards)
        flat = torch.cat([shard.tensor.reshape(-1) for shard in shards if isinstance(shard, Shard)])
        starts = [shard.start for shard in shards if isinstance(shard, Shard)]
        assert starts == sorted(starts)
        found[name] = flat.view(first.shape).clone()
    return found
