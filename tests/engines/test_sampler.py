"""The draw: its distribution, its log-probs, its independence of everything but the request."""

import math

import pytest
import torch

from turnwise.engines.continuous.sampler import Draw, nucleus, sample, stream_key, uniform

PROBS = torch.tensor([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])
NUM_DRAWS = 8_000


def draws(top_p: float = 1.0, temperature: float = 1.0, seed: int = 11) -> list[int]:
    numbers = [uniform(stream_key(seed, [1, 2, 3]), position) for position in range(NUM_DRAWS)]
    asked = [Draw(number, temperature, top_p) for number in numbers]
    ids, _ = sample(PROBS.log().expand(NUM_DRAWS, -1), asked)
    return ids


def chi_square(ids: list[int], expected: torch.Tensor) -> float:
    counts = torch.bincount(torch.tensor(ids), minlength=len(expected)).double()
    assert counts[expected == 0].sum() == 0, "a token of probability 0 was drawn"
    kept = expected > 0
    wanted = expected[kept].double() * len(ids)
    return float(((counts[kept] - wanted) ** 2 / wanted).sum())


@pytest.mark.parametrize("seed", [0, 1, 2, 2**63])
def test_tokens_are_drawn_by_their_probabilities(seed: int) -> None:
    assert chi_square(draws(seed=seed), PROBS) < 18.5  # 4 degrees of freedom: 0.999 of fair samples


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_sharpens_or_flattens(temperature: float) -> None:
    expected = PROBS ** (1 / temperature)
    assert chi_square(draws(temperature=temperature), expected / expected.sum()) < 18.5


def test_top_p_keeps_the_fewest_likeliest_that_reach_it() -> None:
    assert nucleus(PROBS, 0.65).tolist() == pytest.approx([0.4, 0.25, 0, 0, 0, 0])
    assert nucleus(PROBS, 0.66).tolist() == pytest.approx([0.4, 0.25, 0.2, 0, 0, 0])
    assert nucleus(PROBS, 1e-9).tolist() == pytest.approx([0.4, 0, 0, 0, 0, 0])
    expected = torch.tensor([0.4, 0.25, 0.2, 0, 0, 0]) / 0.85
    assert chi_square(draws(top_p=0.7), expected) < 13.8  # 2 degrees of freedom


def test_logprobs_are_of_the_whole_distribution_at_the_rows_own_temperature() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]] * 4)
    asked = [Draw(0.5, 1.0, 1.0), Draw(0.5, 2.0, 1.0), Draw(0.5, 0.0, 1.0), Draw(0.999, 1.0, 0.5)]
    ids, logprobs = sample(logits, asked)
    assert ids[2:] == [0, 0]
    for row, temperature in enumerate([1.0, 2.0, 1.0, 1.0]):
        expected = (logits[row] / temperature).log_softmax(-1)[ids[row]].item()
        assert logprobs[row] == pytest.approx(expected, abs=1e-6)


def test_logits_that_are_not_numbers_show_in_their_own_row_only() -> None:
    logits = torch.tensor([[0.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
    for temperature in (1.0, 0.0):
        _, logprobs = sample(logits, [Draw(0.7, temperature, 1.0)] * 4)
        assert [math.isfinite(logprob) for logprob in logprobs] == [True, False, False, False]


def test_a_stream_depends_on_seed_prompt_and_position_and_on_nothing_else() -> None:
    key = stream_key(1, [5, 6])
    numbers = [uniform(key, 0), uniform(key, 1), uniform(stream_key(2, [5, 6]), 0)]
    numbers.append(uniform(stream_key(1, [5, 7]), 0))
    assert len(set(numbers)) == 4
    assert uniform(stream_key(1, (5, 6)), 0) == numbers[0]
    assert all(0 < number < 1 for number in numbers)
