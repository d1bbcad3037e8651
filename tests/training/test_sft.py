"""Supervised fine-tuning: the loss is on own tokens alone, and nothing about batching shows in it."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tests.training.updates import different, new_model, sample_of, some_samples
from turnwise.config import PolicyConfig, Recipe
from turnwise.training.model.policy import Policy
from turnwise.training.packing.samples import Sample
from turnwise.training.update.sft import SftStep, fine_tune


def tuned(
    samples: Sequence[Sample], tuning: str = "full", tokens_per_microbatch: int = 10_000, **options: Any
) -> tuple[Policy, list[SftStep]]:
    policy = Policy(
        new_model(), PolicyConfig.model_validate({"tuning": tuning, "lora_rank": 4}), device="cpu"
    )
    sections = {
        "sft": {"num_epochs": 1, "learning_rate": 1e-3, **options},
        "update": {"tokens_per_microbatch": tokens_per_microbatch},
    }
    return policy, fine_tune(policy, samples, Recipe.model_validate(sections))


def cross_entropy(samples: Sequence[Sample]) -> float:
    """By the log-probs recorded in the samples, which are the starting model's."""
    num_tokens = sum(sample.num_own_tokens for sample in samples)
    return -sum(sum(sample.logprobs) for sample in samples) / num_tokens


def test_the_first_loss_is_the_mean_over_own_tokens_of_the_whole_batch() -> None:
    samples = some_samples()
    for tokens in (1, 100_000):
        _, steps = tuned(samples, tokens_per_microbatch=tokens)
        assert steps[0].loss == pytest.approx(cross_entropy(samples), rel=1e-5)
        assert steps[0].num_tokens == sum(sample.num_own_tokens for sample in samples)


@pytest.mark.parametrize("tuning", ["full", "lora"])
@pytest.mark.parametrize("prefix", [20, 80])
def test_weights_know_nothing_of_microbatches(tuning: str, prefix: int) -> None:
    """Also where these go on from one prefix."""
    samples = some_samples(prefix=prefix)
    whole, _ = tuned(samples, tuning, num_epochs=2, samples_per_step=6)
    for tokens in (1, prefix + 50):
        parts, _ = tuned(samples, tuning, num_epochs=2, samples_per_step=6, tokens_per_microbatch=tokens)
        for name, weight in whole.state().items():
            torch.testing.assert_close(parts.state()[name], weight, rtol=0, atol=2e-5)


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_demonstrations_are_learned(tuning: str) -> None:
    samples = some_samples(2)
    rate = 1e-2 if tuning == "full" else 3e-2
    _, steps = tuned(samples, tuning, num_epochs=30, learning_rate=rate)
    assert steps[-1].loss < 0.3 * steps[0].loss


def test_prompts_and_tool_output_are_not_learned() -> None:
    """The one own token is the same in all: only what is not trained could tell them apart."""
    samples = [sample_of([([5, number, 9], [7])]) for number in range(10, 30)]
    policy, _ = tuned(samples, num_epochs=10, samples_per_step=20)
    start = Policy(new_model(), PolicyConfig(tuning="full"), device="cpu")
    with torch.no_grad():
        prompt = [sample_of([([5], [number])]) for number in range(10, 30)]
        gains = [
            policy.score(given).logprobs_BT.mean() - start.score(given).logprobs_BT.mean()
            for given in (samples, prompt)
        ]
    assert gains[0] > 1.0
    assert gains[1] < 0.2


def test_rates_end_at_a_tenth_of_the_peak() -> None:
    _, steps = tuned(some_samples(), num_epochs=10, samples_per_step=4, learning_rate=1e-3)
    rates = [step.learning_rate for step in steps]
    assert len(rates) == steps[0].num_steps == 30
    assert rates[:4] == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3, 1e-3]), "a tenth of the steps is warm-up"
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] == pytest.approx(1e-4, rel=0.05)


def test_the_seed_sets_the_order_and_each_epoch_has_every_sample() -> None:
    seen: list[list[int]] = []
    samples = [sample_of([([5, 6], [7] * length)]) for length in range(1, 9)]
    for seed in (0, 0, 1):
        policy = Policy(new_model(), PolicyConfig(tuning="full"), device="cpu")
        recipe = Recipe.model_validate({"seed": seed, "sft": {"num_epochs": 2, "samples_per_step": 1}})
        steps = fine_tune(policy, samples, recipe)
        seen.append([step.num_tokens for step in steps])
    assert seen[0] == seen[1] != seen[2]
    assert sorted(seen[0][:8]) == sorted(seen[0][8:]) == list(range(1, 9))
    assert seen[0][:8] != seen[0][8:]


def test_the_same_seed_gives_the_same_weights_to_the_bit() -> None:
    left, right = (tuned(some_samples(), num_epochs=2, samples_per_step=5)[0] for _ in range(2))
    assert different(left.weights(), right.weights()) == []


def test_samples_without_own_tokens_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="none of the 1 has a token to learn"):
        tuned([sample_of([([1, 2], [])])])


def test_a_loss_that_is_no_number_stops_before_it_does_harm() -> None:
    policy = Policy(new_model(), PolicyConfig(tuning="full"), device="cpu")
    with torch.no_grad():
        next(iter(policy.trainable.values()))[3] = math.inf
    before = policy.state()
    with pytest.raises(FloatingPointError, match=r"sft\.learning_rate"):
        fine_tune(policy, some_samples(), Recipe())
    assert different(before, policy.state()) == []
