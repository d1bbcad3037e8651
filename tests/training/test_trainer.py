"""One update: its gradient is the right one in every layout and with every choice of the algorithm."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.updates import (
    assert_close,
    centred,
    different,
    frozen,
    gradients,
    new_model,
    new_trainer,
    recipe_of,
    reinforce,
    some_samples,
    spoiled,
)
from turnwise.config import PRESETS, parse_settings, read_recipe
from turnwise.training.algorithms.advantages import ADVANTAGES
from turnwise.training.algorithms.aggregate import AGGREGATIONS
from turnwise.training.algorithms.correction import CORRECTIONS
from turnwise.training.algorithms.losses import LOSSES
from turnwise.training.packing.batch import batch_of, minibatches
from turnwise.training.packing.samples import Sample

LORA = {"policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_known_before", [False, True], ids=["one pass", "two passes"])
def test_the_first_step_on_fresh_samples_has_the_gradient_of_reinforce(
    loss: str, is_known_before: bool
) -> None:
    samples = some_samples()
    # ratio bounds that no token reaches require π_old beforehand
    bounds = {"min_ratio": 0.0} if is_known_before else {}
    trainer = new_trainer(recipe_of(algorithm={"loss": loss, "correction": "none", **bounds}))
    result = trainer.update(samples, step=0)
    assert result.skipped == ""
    assert_close(gradients(trainer), reinforce(samples, centred(samples)))
    assert abs(result.metrics["ratio/max"] - 1) <= 1e-6
    assert abs(result.metrics["ratio/mean"] - 1) <= 1e-6
    assert result.metrics["ratio/std"] <= 1e-6
    assert result.metrics["gradient/norm"] == pytest.approx(
        math.sqrt(sum(float(g.square().sum()) for g in gradients(trainer).values())), rel=1e-4
    )


def test_a_single_step_needs_no_pass_beforehand_and_its_ratio_is_exactly_one() -> None:
    result = new_trainer(recipe_of()).update(some_samples(), step=0)
    assert result.metrics["ratio/mean"] == result.metrics["ratio/max"] == 1.0
    assert result.metrics["ratio/std"] == 0.0
    counts = result.histograms["ratio"].counts
    assert sum(counts) == max(counts) == result.metrics["update/num_tokens"]


def updated(samples: Sequence[Sample], **sections: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    trainer = new_trainer(recipe_of(**sections))
    assert trainer.update(samples, step=0).skipped == ""
    return gradients(trainer), trainer.policy.weights()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradients_and_weights_do_not_depend_on_microbatches_order_or_sharing(aggregation: str) -> None:
    samples = some_samples()
    mixed = [samples[number] for number in (5, 2, 9, 0, 7, 11, 4, 1, 8, 3, 10, 6)]
    sections = {
        "algorithm": {"aggregation": aggregation, "entropy_bonus": 0.01, "kl": {"placement": "loss_k2"}},
        "reference": {"kind": "frozen"},
    }
    gradient, weights = updated(samples, **sections)
    for tokens, shared_prefix in ((1, True), (60, True), (60, False), (100_000, False)):
        update = {"tokens_per_microbatch": tokens, "shared_prefix": shared_prefix}
        again, weights_again = updated(mixed, **sections, update=update)
        assert_close(again, gradient)
        assert_close(weights_again, weights, tolerance=1e-5)


def test_microbatches_are_formed_by_the_token_budget() -> None:
    samples = some_samples()
    one, many, plain = (
        new_trainer(recipe_of(update=update)).update(samples, step=0).metrics
        for update in ({}, {"tokens_per_microbatch": 1}, {"shared_prefix": False})
    )
    assert (one["update/num_microbatches"], many["update/num_microbatches"]) == (1, 12)
    assert many["update/num_packed_tokens"] == sum(len(sample.token_ids) for sample in samples)
    assert one["update/num_packed_tokens"] < many["update/num_packed_tokens"]
    assert plain["update/num_packed_tokens"] == 12 * max(len(sample.token_ids) for sample in samples)


def test_values_at_masked_positions_change_nothing() -> None:
    def with_nan(one: Sample) -> Sample:
        pairs = zip(one.logprobs, one.loss_mask, strict=True)
        return dataclasses.replace(one, logprobs=tuple(value if own else math.nan for value, own in pairs))

    sections = {"algorithm": {"correction": "decoupled"}, "update": {"num_minibatches": 2}}
    left, right = new_trainer(recipe_of(**sections)), new_trainer(recipe_of(**sections))
    left.update(some_samples(), step=0)
    right.update([with_nan(one) for one in some_samples()], step=0)
    assert different(left.tensors(), right.tensors()) == []


def test_groups_whose_rewards_are_equal_add_nothing_to_the_gradient() -> None:
    """They still count in the denominator, as tokens of the batch."""
    flat = [
        dataclasses.replace(sample, reward=1.0, turn_rewards=(0.0, 1.0), group=9)
        for sample in some_samples(1)
    ]
    samples = [*some_samples(2), *flat]
    trainer = new_trainer(recipe_of(algorithm={"correction": "none"}))
    metrics = trainer.update(samples, step=0).metrics
    assert_close(gradients(trainer), reinforce(samples, centred(samples)))
    assert metrics["groups/zero_variance_fraction"] == pytest.approx(1 / 3)
    assert metrics["advantage/zero_fraction"] > 0


def test_minibatches_are_in_an_order_that_the_step_determines_and_equal_updates_are_bitwise_equal() -> None:
    sections = {"update": {"num_minibatches": 3, "num_epochs": 2}, **LORA}
    trainers = [new_trainer(recipe_of(**sections)) for _ in range(3)]
    for trainer, step in zip(trainers, (0, 0, 1), strict=True):
        result = trainer.update(some_samples(), step=step)
        assert result.metrics["update/num_optimizer_steps"] == 6
        assert result.metrics["ratio/std_late"] > 0
    assert different(trainers[0].tensors(), trainers[1].tensors()) == []
    assert different(trainers[0].tensors(), trainers[2].tensors()) != []


def test_every_minibatch_is_a_batch_of_its_own() -> None:
    """At a rate of 0 AdamW's moment after two steps is .1 · (.9 · first gradient + second gradient)."""
    samples = some_samples(4)
    recipe = recipe_of(
        update={"num_minibatches": 2}, optimizer={"learning_rate": 0.0}, algorithm={"correction": "none"}
    )
    trainer = new_trainer(recipe)
    trainer.update(samples, step=0)
    parts = minibatches(batch_of(samples), 2, seed=0, step=0, epoch=0)
    minibatch_samples = [[samples[row] for row in rows] for rows in parts]
    first, second = (reinforce(part, centred(part)) for part in minibatch_samples)
    assert_close(gradients(trainer), {name: 0.9 * first[name] + second[name] for name in first})


CHOICES: list[dict[str, Any]] = [
    *({"algorithm": {"advantage": name}} for name in [*ADVANTAGES, "turn", "gae"]),
    *({"algorithm": {"loss": name}} for name in LOSSES),
    *({"algorithm": {"aggregation": name}} for name in AGGREGATIONS),
    *({"algorithm": {"correction": name}} for name in CORRECTIONS),
    *(
        {"algorithm": {"kl": {"placement": name}}, "reference": {"kind": kind}}
        for name, kind in (("reward", "frozen"), ("loss_k2", "hard"), ("loss_k3", "ema"))
    ),
    {"algorithm": {"clip_dual": 3.0, "min_ratio": 0.25, "max_ratio": 4.0, "entropy_bonus": 0.01}},
    {"algorithm": {"advantage": "gae", "gamma": 0.9, "gamma_unit": "turn", "lam": 0.9}},
    {"algorithm": {"advantage": "gae"}, "value": {"trunk": "adapter", "max_change": 0.2}, **LORA},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_of_the_algorithm_updates_the_policy(choice: dict[str, Any]) -> None:
    trainer = new_trainer(recipe_of({**LORA, "update": {"num_minibatches": 2}, **choice}))
    before = trainer.policy.state()
    for step in range(2):
        result = trainer.update(some_samples(), step=step)
    assert result.skipped == ""
    assert result.version == 2
    assert result.metrics["update/num_optimizer_steps"] == 2
    assert all(math.isfinite(value) for value in result.metrics.values())
    assert different(before, trainer.policy.state()) != []


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_updates_the_policy(preset: str) -> None:
    result = new_trainer(read_recipe(None, parse_settings([f"algorithm.preset={preset}"]))).update(
        some_samples(), step=0
    )
    assert result.skipped == ""
    assert result.metrics["gradient/norm"] > 0


# --- saved state -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_a_restored_trainer_continues_bit_for_bit(tuning: str) -> None:
    """With all kinds of state: value head, moving reference, adaptive coefficient, counters, schedule."""
    recipe = recipe_of(
        policy={"tuning": tuning, "lora_rank": 4},
        algorithm={"advantage": "gae", "kl": {"placement": "loss_k3", "target": 1e-3}},
        reference={"kind": "ema", "every": 2, "decay": 0.5},
        optimizer={"schedule": "cosine", "warmup_steps": 2},
        update={"num_minibatches": 2},
        run={"num_steps": 6},
    )
    straight = new_trainer(recipe)
    for step in range(5):
        samples = some_samples(seed=step)
        straight.update(spoiled(samples) if step == 1 else samples, step=step)
        if step == 2:
            tensors, facts = frozen(straight), json.loads(json.dumps(straight.facts()))
    resumed = new_trainer(recipe)
    resumed.restore(tensors, facts)
    for step in (3, 4):
        resumed.update(some_samples(seed=step), step=step)
    assert different(straight.tensors(), resumed.tensors()) == []
    assert straight.facts() == resumed.facts()
    assert resumed.facts()["num_not_a_number"] > 0
    moved = {name.partition("/")[0] for name in different(tensors, straight.tensors())}
    assert moved == {"policy", "value", "optimizer", "reference"}, "all kinds of state change after the save"


def test_bf16_weights_keep_steps_below_their_resolution_in_saved_twins() -> None:
    sections = {"optimizer": {"learning_rate": 1e-5, "epsilon": 1e-8}}
    trainer = new_trainer(recipe_of(**sections), model=new_model().to(torch.bfloat16))
    for step in range(3):
        assert trainer.update(some_samples(), step=step).skipped == ""
    twins = [tensor for name, tensor in trainer.tensors().items() if name.endswith("/twin")]
    assert {tensor.dtype for tensor in twins} == {torch.float32}
    moved = [float((twin - twin.to(torch.bfloat16)).abs().max()) for twin in twins]
    assert max(moved) > 0
    again = new_trainer(recipe_of(**sections), model=new_model().to(torch.bfloat16))
    again.restore(frozen(trainer), trainer.facts())
    trainer.update(some_samples(), step=3)
    again.update(some_samples(), step=3)
    assert different(trainer.tensors(), again.tensors()) == []
