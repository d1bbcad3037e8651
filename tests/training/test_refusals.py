"""Updates that must be skipped: the state stays as it was, bit for bit, and the reason is counted."""

import math
from collections.abc import Sequence

import pytest
import torch

from tests.training.updates import different, frozen, new_trainer, recipe_of, sample_of, some_samples, spoiled
from turnwise.training.packing.samples import Sample
from turnwise.training.update.trainer import StepResult, Trainer


def skipped(trainer: Trainer, samples: Sequence[Sample], reason: str, step: int = 0) -> StepResult:
    """The result of an update that must change no tensor."""
    before = frozen(trainer)
    result = trainer.update(samples, step=step)
    assert reason in result.skipped
    assert different(before, trainer.tensors()) == []
    return result


@pytest.mark.parametrize("advantage", ["mean", "turn", "gae"])
def test_a_nan_changes_nothing_and_is_counted(advantage: str) -> None:
    sections = {"algorithm": {"advantage": advantage, "kl": {"placement": "loss_k3", "target": 0.1}}}
    trainer = new_trainer(recipe_of(reference={"kind": "ema"}, **sections))
    trainer.update(some_samples(), step=0)
    facts = trainer.facts()
    result = skipped(trainer, spoiled(some_samples()), "not a finite number", step=1)
    assert result.version == 1
    assert result.metrics["skipped/not_a_number"] == 1
    assert result.metrics["update/num_optimizer_steps"] == 0
    assert trainer.facts() == {**facts, "num_not_a_number": 1, "num_not_a_number_in_a_row": 1}
    following = trainer.update(some_samples(), step=2)
    assert following.version == 2
    assert following.metrics["skipped/not_a_number_in_a_row"] == 0


def test_a_nan_in_one_minibatch_does_not_affect_the_others() -> None:
    trainer = new_trainer(recipe_of(update={"num_minibatches": 3}))
    result = trainer.update(spoiled(some_samples()), step=0)
    assert result.skipped == ""
    assert result.metrics["update/num_optimizer_steps"] == 2
    assert result.metrics["skipped/not_a_number"] == 1
    assert all(tensor.isfinite().all() for tensor in trainer.tensors().values())


def test_an_infinite_weight_skips_the_update() -> None:
    trainer = new_trainer(recipe_of())
    with torch.no_grad():
        next(iter(trainer.policy.trainable.values()))[3] = math.inf
    skipped(trainer, some_samples(), "not a finite number")


def test_above_the_cap_on_kl_to_the_reference_updates_are_skipped() -> None:
    kl = {"placement": "loss_k3", "hard_cap": 1e-6}
    trainer = new_trainer(recipe_of(algorithm={"kl": kl}, reference={"kind": "frozen"}))
    assert trainer.update(some_samples(), step=0).skipped == "", "the policy is still the reference"
    result = skipped(trainer, some_samples(), "hard_cap", step=1)
    assert result.metrics["kl/reference"] > 1e-6
    assert result.metrics["skipped/kl_cap"] == 1
    following = trainer.update(some_samples(), step=2)
    assert following.metrics["skipped/kl_cap_in_a_row"] == 2, "the health check halts on this"


def test_without_a_reference_the_cap_is_on_the_change_within_the_update() -> None:
    sections = {"algorithm": {"kl": {"hard_cap": 1e-9}}, "update": {"num_minibatches": 3}}
    result = new_trainer(recipe_of(**sections)).update(some_samples(), step=0)
    assert result.skipped == "", "the first step was taken, the third not even computed"
    assert result.metrics["update/num_optimizer_steps"] == 1
    assert result.metrics["skipped/kl_cap"] == 1
    assert result.metrics["skipped/kl_cap_in_a_row"] == 0


@pytest.mark.parametrize("samples", [(), [sample_of([([1, 2, 3], [])])]], ids=["no samples", "no own tokens"])
def test_without_learnable_tokens_nothing_happens(samples: Sequence[Sample]) -> None:
    assert skipped(new_trainer(recipe_of()), samples, "no learnable token").version == 0


def test_a_learning_rate_of_zero_leaves_the_weights_unchanged() -> None:
    trainer = new_trainer(recipe_of(optimizer={"learning_rate": 0.0, "weight_decay": 0.1}))
    before = {name: tensor.clone() for name, tensor in trainer.policy.weights().items()}
    assert trainer.update(some_samples(), step=0).metrics["gradient/norm"] > 0
    assert different(before, trainer.policy.weights()) == []
