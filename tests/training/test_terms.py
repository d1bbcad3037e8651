"""The terms of the loss: corrections, ratio bounds, KL, entropy, imitation and values."""

import dataclasses
import math

import pytest
import torch

from tests.training.samples import plain_logprobs
from tests.training.updates import (
    assert_close,
    centred,
    copy_of,
    gradients,
    new_model,
    new_trainer,
    push,
    recipe_of,
    reinforce,
    shifted,
    some_samples,
    without_reward,
)


@pytest.mark.parametrize(
    ("by", "correction", "weight"),
    [
        (0.5, "decoupled", math.exp(-0.5)),
        (-0.5, "decoupled", math.exp(0.5)),
        (-1.5, "decoupled", 2.0),  # capped
        (-1.5, "none", 1.0),
        (-0.5, "mask", 1.0),
        (-0.15, "bypass", math.exp(0.15)),  # π_θ/μ is the ratio itself
    ],
)
def test_a_difference_of_the_sampler_is_weighted_as_its_correction_says(
    by: float, correction: str, weight: float
) -> None:
    samples = some_samples()
    trainer = new_trainer(recipe_of(algorithm={"correction": correction}))
    metrics = trainer.update(shifted(samples, by), step=0).metrics
    expected = {name: weight * g for name, g in reinforce(samples, centred(samples)).items()}
    assert_close(gradients(trainer), expected, tolerance=1e-5)
    assert metrics["sampler/mean_abs_difference"] == pytest.approx(abs(by), rel=1e-4)
    assert metrics["kl/sampler"] == pytest.approx(math.exp(-by) - 1 + by, rel=1e-4)
    assert metrics["tokens/alignment"] == (1.0 if abs(by) < 1 else 0.0)


def test_tokens_dropped_by_a_correction_leave_the_denominator() -> None:
    samples = some_samples()
    mixed = [*shifted(samples[:4], -1.0), *samples[4:]]
    trainer = new_trainer(recipe_of(algorithm={"correction": "mask"}))
    metrics = trainer.update(mixed, step=0).metrics
    kept = samples[4:]
    assert_close(gradients(trainer), reinforce(kept, centred(kept)))
    assert metrics["update/num_tokens"] == sum(sample.num_own_tokens for sample in kept)
    assert metrics["mask/dropped_fraction"] > 0.2
    assert metrics["kl/sampler"] < 1e-6 < metrics["kl/sampler_unmasked"]


def test_ratio_bounds_drop_tokens_once_the_policy_has_moved() -> None:
    sections = {"update": {"num_epochs": 4}, "optimizer": {"learning_rate": 3e-2}}
    free = new_trainer(recipe_of(**sections)).update(some_samples(), step=0).metrics
    bounds = {"min_ratio": 0.9, "max_ratio": 1.1}
    bounded = new_trainer(recipe_of(algorithm=bounds, **sections)).update(some_samples(), step=0).metrics
    assert free["ratio/max"] > 1.1
    assert free["mask/dropped_fraction"] == 0
    assert bounded["ratio/max"] <= 1.1 + 1e-5
    assert bounded["ratio/p10"] >= 0.9 - 1e-5
    assert bounded["mask/dropped_fraction"] > 0
    assert bounded["update/num_tokens"] < free["update/num_tokens"]


def test_kl_in_the_reward_is_subtracted_before_members_are_compared() -> None:
    samples = some_samples(2)
    recipe = recipe_of(
        algorithm={"kl": {"placement": "reward", "coefficient": 0.1}, "correction": "none"},
        reference={"kind": "frozen"},
    )
    trainer = new_trainer(recipe)
    push(trainer.policy, 1.1)  # away from the reference, which was copied when the trainer was made
    policy, start = copy_of(trainer), new_model()
    paid = []
    for sample in samples:
        own = torch.tensor(sample.loss_mask[1:], dtype=torch.bool)
        with torch.no_grad():
            differences = plain_logprobs(policy, sample.token_ids) - plain_logprobs(start, sample.token_ids)
        paid.append(dataclasses.replace(sample, reward=sample.reward - 0.1 * float(differences[own].sum())))
    trainer.update(samples, step=0)
    expected = reinforce(samples, centred(paid), model=policy)
    assert_close(gradients(trainer), expected, tolerance=1e-5)


@pytest.mark.parametrize("placement", ["loss_k2", "loss_k3"])
def test_a_kl_loss_pulls_towards_the_reference(placement: str) -> None:
    recipe = recipe_of(
        algorithm={"kl": {"placement": placement, "coefficient": 1.0}},
        reference={"kind": "frozen"},
        optimizer={"learning_rate": 1e-3},
    )
    trainer = new_trainer(recipe)
    push(trainer.policy, 1.05)
    flat = without_reward(some_samples())
    found = [trainer.update(flat, step=step).metrics["kl/reference"] for step in range(6)]
    assert found[-1] < 0.7 * found[0]


def test_the_coefficient_adapts_towards_its_target() -> None:
    kl = {"placement": "loss_k3", "coefficient": 0.1, "target": 1e-3}
    trainer = new_trainer(recipe_of(algorithm={"kl": kl}, reference={"kind": "frozen"}))
    found = [trainer.update(some_samples(), step=step).metrics for step in range(4)]
    coefficients = [metrics["kl/coefficient"] for metrics in found]
    assert coefficients[0] == 0.1
    assert coefficients[1] == pytest.approx(0.1 * 0.98)  # KL was 0, below the target: 2% less
    assert found[2]["kl/reference"] > 1e-3
    assert coefficients[3] == pytest.approx(coefficients[2] * 1.02)


def test_imitation_adds_its_cross_entropy_with_a_weight_that_decays_to_zero() -> None:
    shown = some_samples(1, seed=7)
    recipe = recipe_of(
        imitation={"weight": 0.4, "num_steps": 4},
        optimizer={"learning_rate": 0.0},
        algorithm={"correction": "none"},
    )
    samples = some_samples()
    entropy = -sum(sum(sample.logprobs) for sample in shown) / sum(sample.num_own_tokens for sample in shown)
    trainer = new_trainer(recipe)
    for step, weight in enumerate((0.4, 0.3, 0.2, 0.1)):
        metrics = trainer.update(samples, step=step, imitation=shown).metrics
        assert metrics["loss/imitation"] == pytest.approx(weight * entropy, rel=1e-5)
        assert metrics["imitation/weight"] == pytest.approx(weight)
    assert "loss/imitation" not in trainer.update(samples, step=4, imitation=shown).metrics
    fresh = new_trainer(recipe)
    fresh.update(samples, step=0, imitation=shown)
    pull, push = reinforce(shown, [0.4] * len(shown)), reinforce(samples, centred(samples))
    assert_close(gradients(fresh), {name: pull[name] + push[name] for name in push})


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_truncated", "expected"), [(True, 0.0), (False, 0.64)])
def test_only_a_truncated_episode_has_the_value_of_its_last_state_in_its_return(
    is_truncated: bool, expected: float
) -> None:
    """The head predicts 0.8 everywhere: the return of a truncated episode; a finished one has reward 0."""
    trainer = new_trainer(recipe_of(algorithm={"advantage": "gae"}))
    with torch.no_grad():
        trainer.policy.value_parameters["head.linear.bias"].fill_(0.8)
    samples = [dataclasses.replace(sample, is_truncated=is_truncated) for sample in some_samples()]
    metrics = trainer.update(without_reward(samples), step=0).metrics
    assert metrics["value/loss"] == pytest.approx(expected, abs=1e-6)
    assert metrics["loss/value"] == pytest.approx(0.5 * expected, abs=1e-6)
    assert metrics["value/mean"] == pytest.approx(0.8)
