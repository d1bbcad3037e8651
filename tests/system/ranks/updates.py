"""Named updates that tests make with one process and with several."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.training.updates import limit, new_model, recipe_of, some_samples, spoiled
from turnwise.config import Recipe
from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.sharding.shards import Shard, Shards
from turnwise.training.update.trainer import StepResult, Trainer

UNEVEN = {"update": {"tokens_per_microbatch": 1}}
"""One sample per micro-batch: of an odd number, one rank has more than the other."""

KL = {**UNEVEN, "algorithm": {"kl": {"placement": "loss_k2", "coefficient": 0.5}}}
LORA = {**UNEVEN, "policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}}
GAE = {"algorithm": {"advantage": "gae"}}


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


def with_prefix() -> tuple[Sample, ...]:
    """A prefix long enough to be computed once for all micro-batches."""
    return odd_samples(prefix=80)


def small_memory_model() -> Any:
    """A model that runs out of memory with more than 100 tokens at a time."""
    model = new_model()
    limit(model, 100)
    return model


def with_update(**keys: Any) -> dict[str, Any]:
    return {"update": {**UNEVEN["update"], **keys}}


SCENARIOS = {
    "full": Scenario(UNEVEN),
    "in one part": Scenario(),
    "few": Scenario(GAE, few),
    "lora": Scenario(LORA),
    "carried": Scenario(UNEVEN, with_prefix),
    "carried by lora": Scenario(LORA, with_prefix),
    "padded": Scenario(with_update(shared_prefix=False)),
    "recomputed": Scenario({**UNEVEN, "policy": {"gradient_checkpointing": True}}, with_prefix),
    "without signal": Scenario(UNEVEN, without_signal),
    "frozen reference": Scenario({**KL, "reference": {"kind": "frozen"}}, num_updates=2),
    "average reference": Scenario({**KL, "reference": {"kind": "ema", "decay": 0.5}}, num_updates=2),
    "reference of lora": Scenario({**KL, **LORA, "reference": {"kind": "frozen"}}, num_updates=2),
    "value": Scenario({**UNEVEN, **GAE}),
    "value by an adapter": Scenario({**LORA, **GAE, "value": {"trunk": "adapter"}}, with_prefix),
    "imitation": Scenario({**UNEVEN, "imitation": {"weight": 0.5}}, imitation=lambda: odd_samples()[:3]),
    "minibatches": Scenario(with_update(num_epochs=2, num_minibatches=2)),
    "ratio bounds": Scenario(
        {"algorithm": {"min_ratio": 0.25, "max_ratio": 4.0}, **with_update(num_epochs=2)}
    ),
    "clipped": Scenario({**UNEVEN, "optimizer": {"max_gradient_norm": 0.01}}),
    "spoiled": Scenario(UNEVEN, lambda: spoiled(odd_samples())),
    "bfloat16": Scenario(UNEVEN, dtype=torch.bfloat16),
    "out of memory": Scenario(GAE, model=small_memory_model),
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
        assert [shard.start for shard in shards] == sorted(shard.start for shard in shards)
        flat = torch.cat([shard.tensor.reshape(-1) for shard in shards])
        found[name] = flat.view(first.shape).clone()
    return found


@cache
def unsharded(name: str, device: str = "cpu") -> tuple[dict[str, Tensor], StepResult]:
    """The tensors and the result of the update in this process."""
    trainer = new_trainer(SCENARIOS[name], device=device)
    result = learn(SCENARIOS[name], trainer)
    return {key: tensor.cpu() for key, tensor in joined([trainer.tensors()]).items()}, result


def check_same_update(outcome: Mapping[str, Any], name: str, tolerance: float, device: str = "cpu") -> None:
    """Tensors within `tolerance` of their largest entry, and nearly the same metrics."""
    expected, result = unsharded(name, device)
    assert outcome["tensors"].keys() == expected.keys()
    assert outcome["skipped"] == result.skipped
    assert bool(result.skipped) == (name == "spoiled")
    for key, tensor in expected.items():
        largest = max(float(tensor.double().abs().max()), 1e-3)
        found = outcome["tensors"][key]
        torch.testing.assert_close(found, tensor, rtol=0, atol=tolerance * largest, msg=key)
    if result.skipped:
        return
    moments = [tensor for key, tensor in expected.items() if key.endswith("/exp_avg")]
    assert max(float(moment.abs().max()) for moment in moments) > 1e-6, "the update changes nothing"
    assert outcome["metrics"].keys() == result.metrics.keys()
    for figure in FIGURES:
        ours, theirs = outcome["metrics"][figure], result.metrics[figure]
        assert math.isclose(ours, theirs, rel_tol=tolerance * 20, abs_tol=tolerance), figure
