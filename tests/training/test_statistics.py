"""The metrics of an update against hand-worked numbers."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.updates import new_trainer, recipe_of, sample_of, some_samples
from turnwise.training.packing.batch import batch_of
from turnwise.training.update.statistics import (
    RATIO_EDGES,
    Trace,
    first_mismatch,
    metrics_of,
    ratio_histogram,
)
from turnwise.training.update.targets import Before, Lesson, Targets

MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def table(*rows: list[float]) -> Tensor:
    return torch.tensor([[*row, *(0.0,) * (4 - len(row))] for row in rows])


def scene(**kept: Tensor) -> tuple[Lesson, Trace]:
    """Two samples of four and two own tokens, sampled at −1; advantages of 1 and −1 but for one 0."""
    samples = [sample_of([([1, 2, 3], [4] * 4)]), sample_of([([1, 2, 3], [4] * 2)], policy_version=-2)]
    batch = dataclasses.replace(batch_of(samples), sampler_logprobs_BT=table([-1.0] * 4, [-1.0] * 2))
    advantages_BT = table([1.0, 1.0, 0.0, 1.0], [-1.0, -1.0])
    trace = Trace(batch)
    trace.old_logprobs_BT = table([-1.0] * 4, [-1.0] * 2)
    trace.logprobs_BT = table([-1.0] * 4, [-1.0] * 2)
    trace.learnable_BT = MASK.clone()
    trace.seen_BT = MASK.clone()
    for name, tensor in kept.items():
        setattr(trace, name, tensor)
    return Lesson(batch, Before(None, None, None), Targets(advantages_BT, None, 0.5), 0.0), trace


def figures(loss: str = "clip", **kept: Tensor) -> dict[str, float]:
    lesson, trace = scene(**kept)
    return metrics_of(lesson, trace, version=1, loss_name=loss)


def test_ratios_are_reported_by_quantile_and_by_the_sign_of_the_advantage() -> None:
    found = figures(ratio_BT=table([1.2, 0.8, 1.0, 1.6], [0.5, 0.9]))
    assert found["ratio/mean"] == pytest.approx(1.0)
    assert found["ratio/std"] == pytest.approx(math.sqrt((0.04 + 0.04 + 0.36 + 0.25 + 0.01) / 6), rel=1e-5)
    quantiles = [found[f"ratio/{name}"] for name in ("p10", "p50", "p90", "max")]
    assert quantiles == pytest.approx([0.65, 0.95, 1.4, 1.6])
    assert found["ratio/mean_positive"] == pytest.approx(1.2)
    assert found["ratio/mean_negative"] == pytest.approx(0.7)
    assert "ratio/std_late" not in found


def test_tokens_that_are_not_learned_from_do_not_count_in_the_ratios() -> None:
    ratio = table([1.0, 1.0, 1.0, 9.0], [1.0, 1.0])
    ratio[1, 2:] = 7.0
    found = figures(ratio_BT=ratio, learnable_BT=MASK & (ratio < 9))
    assert (found["ratio/max"], found["ratio/std"]) == (1.0, 0.0)
    assert found["update/num_tokens"] == 5
    assert found["mask/learnable_fraction"] == pytest.approx(5 / 6)
    assert found["mask/dropped_fraction"] == pytest.approx(1 / 6)
    assert found["mask/own_fraction"] == pytest.approx(6 / 12)


def test_the_spread_of_ratios_after_the_first_step_has_its_own_metric() -> None:
    late = table([0.0] * 4, [1.0, 1.0]).bool()
    moved = figures(ratio_BT=table([1.0] * 4, [0.9, 1.1]), is_late_BT=late)
    stuck = figures(ratio_BT=table([0.8, 1.0, 1.0, 1.0], [1.0, 1.0]), is_late_BT=late)
    assert moved["ratio/std_late"] == pytest.approx(0.1)
    assert stuck["ratio/std_late"] == 0.0


def test_a_clipped_token_is_not_active_unless_it_keeps_its_gradient() -> None:
    flags = {
        "is_high_BT": table([1.0, 0.0, 0.0, 0.0], []).bool(),
        "is_low_BT": table([], [1.0]).bool(),
        "is_dual_BT": table([], [0.0, 1.0]).bool(),
    }
    found = figures(**flags)
    assert found["clip/active_fraction"] == pytest.approx(2 / 5)  # of the five with an advantage
    assert [found[f"clip/{name}_fraction"] for name in ("low", "high", "dual")] == pytest.approx([1 / 6] * 3)
    assert figures("cispo", **flags)["clip/active_fraction"] == 1.0


def test_every_divergence_has_its_direction() -> None:
    """k3 of tokens drawn from the first distribution: e^(second − first) − 1 − (second − first)."""

    def k3(second_minus_first: float) -> float:
        return math.exp(second_minus_first) - 1 - second_minus_first

    old, now, ref = (table([value] * 4, [value] * 2) for value in (-1.5, -1.3, -1.0))
    lesson, trace = scene(old_logprobs_BT=old, logprobs_BT=now)
    lesson = dataclasses.replace(lesson, before=Before(None, ref, None))
    found = metrics_of(lesson, trace, version=1, loss_name="clip")
    assert found["kl/sampler"] == pytest.approx(k3(-0.5), rel=1e-5)
    assert found["kl/old"] == pytest.approx(k3(0.2), rel=1e-4)
    assert found["kl/reference"] == pytest.approx(k3(0.3), rel=1e-4)


def test_dropped_tokens_count_only_in_the_unmasked_divergence() -> None:
    old = table([-1.0, -1.0, -1.0, -3.0], [-1.0, -1.0])
    found = figures(old_logprobs_BT=old, logprobs_BT=old, learnable_BT=MASK & (old > -2))
    assert found["kl/sampler"] == 0.0
    assert found["kl/sampler_unmasked"] == pytest.approx((math.exp(-2) - 1 + 2) / 6, rel=1e-5)
    assert found["sampler/max_abs_difference"] == 2.0
    assert found["sampler/mean_abs_difference"] == pytest.approx(2 / 6)


def test_alignment_allows_one_nat_and_one_more_per_version_of_age() -> None:
    """The first sample is one version old, the second three."""
    old = table([-1.0, -2.9, -3.1, -1.0], [-4.9, -5.1])
    assert figures(old_logprobs_BT=old)["tokens/alignment"] == pytest.approx(4 / 6)


def test_the_first_mismatch_has_its_position_among_all_tokens() -> None:
    lesson, trace = scene(old_logprobs_BT=table([-1.0, -2.9, -3.1, -9.0], [-4.9, -5.1]))
    found = first_mismatch(lesson, trace, version=1)
    assert found is not None
    assert (found.row, found.position, found.turn, found.token_id) == (0, 5, 0, 4), "after 3 of the prompt"
    assert (found.sampler_logprob, found.trainer_logprob) == pytest.approx((-1.0, -3.1))
    assert first_mismatch(*scene(), version=1) is None


def test_a_shift_by_one_token_lowers_the_alignment() -> None:
    samples = some_samples()
    shifted = [dataclasses.replace(one, token_ids=(*one.token_ids[1:], one.token_ids[0])) for one in samples]
    right, wrong = (new_trainer(recipe_of()).update(given, step=0) for given in (samples, shifted))
    assert (right.metrics["tokens/alignment"], right.mismatch) == (1.0, None)
    assert wrong.metrics["tokens/alignment"] < 0.7
    assert wrong.mismatch is not None


def test_advantages_and_staleness_are_summarised() -> None:
    found = figures()
    assert found["advantage/mean"] == pytest.approx(1 / 6)
    assert (found["advantage/min"], found["advantage/max"]) == (-1.0, 1.0)
    assert found["advantage/zero_fraction"] == pytest.approx(1 / 6)
    assert found["groups/zero_variance_fraction"] == 0.5
    assert (found["staleness/mean"], found["staleness/max"]) == (2.0, 3.0)


def test_the_histogram_counts_every_learnable_token_and_centres_a_bin_on_one() -> None:
    lesson, trace = scene(ratio_BT=table([1.0, 1.04, 0.96, 1.06], [1e-9, 1e9]))
    histogram = ratio_histogram(trace)
    assert histogram.edges == RATIO_EDGES
    assert len(histogram.counts) == len(RATIO_EDGES) + 1
    assert sum(histogram.counts) == int(lesson.batch.mask_BT.sum()) == 6
    assert (histogram.counts[0], histogram.counts[-1]) == (1, 1)
    middle = len(histogram.counts) // 2
    assert histogram.counts[middle : middle + 2] == (3, 1)
    assert RATIO_EDGES[middle - 1] * RATIO_EDGES[middle] == pytest.approx(1.0)


def test_the_explained_variance_of_a_value_head_rises_as_it_learns() -> None:
    sections: dict[str, Any] = {
        "algorithm": {"advantage": "gae"},
        "value": {"learning_rate": 0.1},
        "optimizer": {"learning_rate": 0.0},
    }
    trainer = new_trainer(recipe_of(**sections))
    found = [trainer.update(some_samples(), step=step).metrics for step in range(20)]
    assert found[0]["value/explained_variance"] == pytest.approx(0.0, abs=1e-6)
    assert found[0]["value/loss"] > found[-1]["value/loss"]
    assert found[-1]["value/explained_variance"] > 0.1
    assert found[-1]["gradient/value_norm"] > 0


def test_samples_skipped_at_the_kl_cap_do_not_count_as_sampler_differences() -> None:
    trainer = new_trainer(recipe_of(update={"num_minibatches": 3}, optimizer={"learning_rate": 1.0}))
    metrics = trainer.update(some_samples(), step=0).metrics
    assert metrics["skipped/kl_cap"] == 1
    assert metrics["tokens/alignment"] == 1.0
    assert metrics["sampler/max_abs_difference"] < 1e-4
    assert metrics["kl/sampler_unmasked"] < 1e-6
    assert metrics["kl/old_unmasked"] == pytest.approx(metrics["kl/old"])
