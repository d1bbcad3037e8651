"""Supervised fine-tuning: the loss is on own tokens only, and batching does not change it."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tests.training.updates import different, new_model, sample_of, some_samples
from turnwise.config import PolicyConfig, Recipe
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import SftPart, SftStep, fine_tune, fine_tuning

both_tunings = pytest.mark.parametrize("tuning", ["full", "lora"])


def new_policy(tuning: str = "full") -> Policy:
    config = PolicyConfig.model_validate({"tuning": tuning, "lora_rank": 4})
    return Policy(new_model(), config, device="cpu")


def tuned(
    samples: Sequence[Sample],
    tuning: str = "full",
    seed: int = 0,
    tokens_per_microbatch: int = 10_000,
    **options: Any,
) -> tuple[Policy, list[SftStep]]:
    policy = new_policy(tuning)
    sections = {
        "seed": seed,
        "sft": {"num_epochs": 1, "learning_rate": 1e-3, **options},
        "update": {"tokens_per_microbatch": tokens_per_microbatch},
    }
    return policy, fine_tune(policy, samples, Recipe.model_validate(sections))


@pytest.mark.parametrize("tokens", [1, 100_000])
def test_the_first_loss_is_the_mean_over_own_tokens_of_the_whole_batch(tokens: int) -> None:
    samples = some_samples()
    num_tokens = sum(sample.num_own_tokens for sample in samples)
    cross_entropy = -sum(sum(sample.logprobs) for sample in samples) / num_tokens  # of the initial model
    _, steps = tuned(samples, tokens_per_microbatch=tokens)
    assert steps[0].loss == pytest.approx(cross_entropy, rel=1e-5)
    assert steps[0].num_tokens == num_tokens


@both_tunings
@pytest.mark.parametrize("prefix", [20, 80], ids=["prefix of 20", "carried prefix of 80"])
def test_weights_do_not_depend_on_microbatches(tuning: str, prefix: int) -> None:
    samples = some_samples(prefix=prefix)
    options = {"num_epochs": 2, "samples_per_step": 6}
    whole, _ = tuned(samples, tuning, **options)
    for tokens in (1, prefix + 50):
        parts, _ = tuned(samples, tuning, **options, tokens_per_microbatch=tokens)
        for name, weight in whole.state().items():
            torch.testing.assert_close(parts.state()[name], weight, rtol=0, atol=2e-5)


@both_tunings
def test_demonstrations_are_learned(tuning: str) -> None:
    rate = 1e-2 if tuning == "full" else 3e-2
    _, steps = tuned(some_samples(2), tuning, num_epochs=20, learning_rate=rate)
    assert steps[-1].loss < 0.4 * steps[0].loss


def test_prompts_and_tool_output_are_not_learned() -> None:
    """All samples have the same own token and different prompts."""
    samples = [sample_of([([5, number, 9], [7])]) for number in range(10, 30)]
    policy, _ = tuned(samples, num_epochs=10, samples_per_step=20)
    start = new_policy()
    with torch.no_grad():
        prompts = [sample_of([([5], [number])]) for number in range(10, 30)]
        gains = [
            policy.score(given).logprobs_BT.mean() - start.score(given).logprobs_BT.mean()
            for given in (samples, prompts)
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


def test_the_seed_determines_order_and_weights_and_every_epoch_has_every_sample() -> None:
    samples = [sample_of([([5, 6], [7] * length)]) for length in range(1, 9)]
    runs = [tuned(samples, seed=seed, num_epochs=2, samples_per_step=1) for seed in (0, 0, 1)]
    first, again, other = ([step.num_tokens for step in steps] for _, steps in runs)
    assert first == again != other
    assert different(runs[0][0].weights(), runs[1][0].weights()) == []
    assert sorted(first[:8]) == sorted(first[8:]) == list(range(1, 9))
    assert first[:8] != first[8:]


def test_samples_without_own_tokens_are_rejected() -> None:
    with pytest.raises(ValueError, match="none of the 1 has a token to learn"):
        tuned([sample_of([([1, 2], [])])])


def test_a_loss_that_is_not_finite_stops_before_it_changes_the_weights() -> None:
    policy = new_policy()
    with torch.no_grad():
        next(iter(policy.trainable.values()))[3] = math.inf
    before = policy.state()
    with pytest.raises(FloatingPointError, match=r"sft\.learning_rate"):
        fine_tune(policy, some_samples(), Recipe())
    assert different(before, policy.state()) == []


def test_every_microbatch_is_reported_with_the_time_left() -> None:
    parts: list[SftPart] = []
    recipe = Recipe.model_validate(
        {"sft": {"num_epochs": 2, "samples_per_step": 6}, "update": {"tokens_per_microbatch": 1}}
    )
    steps = list(fine_tuning(new_policy(), some_samples(), recipe, on_part=parts.append))
    assert {part.step for part in parts} == {step.step for step in steps}
    assert len(parts) > len(steps)
    assert [part.share_of_step for part in parts if part.step == 0][-1] == 1
    assert parts[-1].seconds_left == 0
    assert SftPart(step=1, num_steps=4, share_of_step=0.5, seconds=60).seconds_left == 100
