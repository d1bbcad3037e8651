"""One update: its gradient is the right one, however it is computed and whatever is chosen."""

import dataclasses
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
    new_trainer,
    recipe_of,
    reinforce,
    some_samples,
)
from turnwise.algorithms.advantages import ADVANTAGES
from turnwise.algorithms.aggregate import AGGREGATIONS
from turnwise.algorithms.correction import CORRECTIONS
from turnwise.algorithms.losses import LOSSES
from turnwise.config import PRESETS, load_recipe
from turnwise.training.packing.batch import batch_of, minibatches
from turnwise.training.packing.samples import Sample

LORA = {"policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}}


# --- invariant 2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_known_before", [False, True], ids=["one pass", "two passes"])
def test_the_first_step_on_fresh_samples_has_the_gradient_of_reinforce(
    loss: str, is_known_before: bool
) -> None:
    samples = some_samples()
    # ratio bounds that nothing reaches ask for π_old beforehand
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


def test_one_step_needs_no_pass_beforehand_and_its_ratio_is_exactly_one() -> None:
    result = new_trainer(recipe_of()).update(some_samples(), step=0)
    assert result.metrics["ratio/mean"] == result.metrics["ratio/max"] == 1.0
    assert result.metrics["ratio/std"] == 0.0
    assert sum(result.histograms["ratio"].counts) == result.metrics["update/num_tokens"]
    assert max(result.histograms["ratio"].counts) == result.metrics["update/num_tokens"]


def test_an_update_makes_what_was_rewarded_likelier() -> None:
    samples = some_samples()
    trainer = new_trainer(recipe_of(optimizer={"learning_rate": 1e-3}))

    def logprob(samples: Sequence[Sample]) -> float:
        with torch.no_grad():
            return float(trainer.policy.score(samples).logprobs_BT.sum())

    good = [sample for sample in samples if sample.reward]
    bad = [sample for sample in samples if not sample.reward]
    before = logprob(good) - logprob(bad)
    trainer.update(samples, step=0)
    assert logprob(good) - logprob(bad) > before + 0.1


# --- invariants 3 and 4 ------------------------------------------------------------------------------------


def updated(samples: Sequence[Sample], **sections: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    trainer = new_trainer(recipe_of(**sections))
    assert trainer.update(samples, step=0).skipped == ""
    return gradients(trainer), trainer.policy.weights()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradients_and_weights_know_nothing_of_microbatches_order_or_sharing(aggregation: str) -> None:
    samples = some_samples()
    sections = {
        "algorithm": {"aggregation": aggregation, "entropy_bonus": 0.01, "kl": {"placement": "loss_k2"}},
        "reference": {"kind": "frozen"},
    }
    gradient, weights = updated(samples, **sections)
    for other in (samples[::-1], [samples[number] for number in (5, 2, 9, 0, 7, 11, 4, 1, 8, 3, 10, 6)]):
        for tokens in (1, 60, 100_000):
            for shared_prefix in (True, False):
                update = {"tokens_per_microbatch": tokens, "shared_prefix": shared_prefix}
                again, weights_again = updated(other, **sections, update=update)
                assert_close(again, gradient)
                assert_close(weights_again, weights, tolerance=1e-5)


def test_microbatches_are_formed_by_the_token_budget() -> None:
    samples = some_samples()
    one = new_trainer(recipe_of()).update(samples, step=0).metrics
    many = new_trainer(recipe_of(update={"tokens_per_microbatch": 1})).update(samples, step=0).metrics
    plain = new_trainer(recipe_of(update={"shared_prefix": False})).update(samples, step=0).metrics
    assert (one["update/num_microbatches"], many["update/num_microbatches"]) == (1, 12)
    assert many["update/num_packed_tokens"] == sum(len(sample.token_ids) for sample in samples)
    assert one["update/num_packed_tokens"] < many["update/num_packed_tokens"]
    assert plain["update/num_packed_tokens"] == 12 * max(len(sample.token_ids) for sample in samples)


def test_what_stands_at_masked_positions_changes_nothing() -> None:
    samples = some_samples()
    rubbish = [
        dataclasses.replace(
            sample,
            logprobs=tuple(
                value if own else math.nan
                for value, own in zip(sample.logprobs, sample.loss_mask, strict=True)
            ),
        )
        for sample in samples
    ]
    sections = {"algorithm": {"correction": "decoupled"}, "update": {"num_minibatches": 2}}
    left, right = new_trainer(recipe_of(**sections)), new_trainer(recipe_of(**sections))
    left.update(samples, step=0)
    right.update(rubbish, step=0)
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


def test_the_same_state_and_samples_give_the_same_bits() -> None:
    sections = {"update": {"num_minibatches": 3, "num_epochs": 2}, **LORA}
    left, right = (new_trainer(recipe_of(**sections)) for _ in range(2))
    for step in range(2):
        assert left.update(some_samples(), step=step).metrics["gradient/norm"] > 0
        right.update(some_samples(), step=step)
    assert different(left.tensors(), right.tensors()) == []


def test_minibatches_are_whole_groups_in_an_order_that_the_step_sets() -> None:
    update = {"update": {"num_minibatches": 3}}
    trainers = [new_trainer(recipe_of(**update)) for _ in range(3)]
    for trainer, step in zip(trainers, (0, 0, 1), strict=True):
        result = trainer.update(some_samples(), step=step)
        assert result.metrics["update/num_optimizer_steps"] == 3
        assert result.metrics["ratio/std_late"] > 0
    assert different(trainers[0].tensors(), trainers[1].tensors()) == []
    assert different(trainers[0].tensors(), trainers[2].tensors()) != []


def test_each_minibatch_is_a_batch_of_its_own() -> None:
    """At a rate of 0 AdamW's moment after two steps is .1 · (.9 · first gradient + second gradient)."""
    samples = some_samples(4)
    recipe = recipe_of(
        update={"num_minibatches": 2}, optimizer={"learning_rate": 0.0}, algorithm={"correction": "none"}
    )
    trainer = new_trainer(recipe)
    trainer.update(samples, step=0)
    first, second = (
        reinforce(part, centred(part))
        for part in (
            [samples[row] for row in rows]
            for rows in minibatches(batch_of(samples), 2, seed=0, step=0, epoch=0)
        )
    )
    assert_close(gradients(trainer), {name: 0.9 * first[name] + second[name] for name in first})


# --- everything selectable ---------------------------------------------------------------------------------

CHOICES: list[dict[str, Any]] = [
    *({"algorithm": {"advantage": name}} for name in [*ADVANTAGES, "turn", "gae"]),
    *({"algorithm": {"loss": name}} for name in LOSSES),
    *({"algorithm": {"aggregation": name}} for name in AGGREGATIONS),
    *({"algorithm": {"correction": name}} for name in CORRECTIONS),
    *(
        {"algorithm": {"kl": {"placement": name}}, "reference": {"kind": kind}}
        for name in ("reward", "loss_k2", "loss_k3")
        for kind in ("frozen", "hard", "ema")
    ),
    {"algorithm": {"clip_dual": 3.0, "min_ratio": 0.25, "max_ratio": 4.0, "entropy_bonus": 0.01}},
    {"algorithm": {"advantage": "gae", "gamma": 0.9, "gamma_unit": "turn", "lam": 0.9}},
    {"algorithm": {"advantage": "gae"}, "value": {"trunk": "adapter", "max_change": 0.2}, **LORA},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_of_the_algorithm_takes_its_steps(choice: dict[str, Any]) -> None:
    recipe = recipe_of({**LORA, "update": {"num_minibatches": 2}, **choice})
    trainer = new_trainer(recipe)
    before = frozen(trainer)
    for step in range(2):
        result = trainer.update(some_samples(), step=step)
    assert result.skipped == ""
    assert result.version == 2
    assert result.metrics["update/num_optimizer_steps"] == 2
    assert all(math.isfinite(value) for value in result.metrics.values())
    after = trainer.tensors()
    assert any(not torch.equal(after[name], before[name]) for name in before)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_takes_its_steps(preset: str) -> None:
    recipe = load_recipe(None, [f"algorithm.preset={preset}"])
    result = new_trainer(recipe).update(some_samples(), step=0)
    assert result.skipped == ""
    assert result.metrics["gradient/norm"] > 0
