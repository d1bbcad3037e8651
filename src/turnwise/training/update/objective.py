"""The loss of a minibatch, computed in shares by micro-batch.

The shares of all micro-batches of a minibatch add up to its loss: every denominator is counted over the whole
minibatch beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from turnwise.config import Recipe
from turnwise.training.algorithms.aggregate import AGGREGATIONS, Denominators, count
from turnwise.training.algorithms.correction import CORRECTIONS, Correction, CorrectionLimits, within
from turnwise.training.algorithms.kl import KL_LOSSES
from turnwise.training.algorithms.losses import (
    DEFAULT_BOUNDS,
    LOSSES,
    Bounds,
    PolicyLoss,
    value_loss,
    with_entropy_bonus,
)
from turnwise.training.algorithms.ratio import exp_bounded, masked_log_ratio, zero_where_masked
from turnwise.training.policy.policy import Scores
from turnwise.training.update.targets import Lesson

VALUE_COEFFICIENT = 0.5
"""Weight of the value loss. AdamW divides a constant factor out again: value.learning_rate is what counts."""
_KL_LOSS = {"loss_k2": "k2", "loss_k3": "k3_ratio"}


@dataclass(frozen=True, slots=True)
class Minibatch:
    """The rows of one optimizer step, and what their losses are divided by."""

    rows: tuple[int, ...]
    learnable_BT: Tensor
    """Over the whole batch: own tokens without those that corrections and ratio bounds drop."""
    denominators: Denominators
    num_own_tokens: int
    """The denominator of the value loss, which learns from every own token, dropped or not."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Some rows' share of the minibatch's loss, by term, coefficients included."""

    policy: Tensor
    kl: Tensor
    entropy: Tensor
    value: Tensor

    @property
    def total(self) -> Tensor:
        return self.policy + self.kl + self.entropy + self.value

    def figures(self) -> dict[str, float]:
        return {f"loss/{field.name}": float(getattr(self, field.name).detach()) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Found:
    """The loss shares of some rows, and the values per token behind them."""

    shares: Shares
    loss: PolicyLoss
    old_logprobs_BT: Tensor


class Objective:
    """The loss that a recipe describes."""

    def __init__(self, recipe: Recipe) -> None:
        algorithm = recipe.algorithm
        self._algorithm = algorithm
        self._value = recipe.value
        self._constant_tokens = recipe.rollout.tokens_per_turn
        default = DEFAULT_BOUNDS[algorithm.loss]
        self._bounds = Bounds(
            low=default.low if algorithm.clip_low is None else algorithm.clip_low,
            high=default.high if algorithm.clip_high is None else algorithm.clip_high,
            dual=algorithm.clip_dual,
        )
        cap = algorithm.correction_cap
        self._limits = CorrectionLimits(cap, low=1 / cap, high=cap)

    @property
    def has_ratio_bounds(self) -> bool:
        return self._algorithm.min_ratio is not None or self._algorithm.max_ratio is not None

    @property
    def may_drop_tokens(self) -> bool:
        """Whether the mask, and so every denominator, depends on π_old or π_θ."""
        return self.has_ratio_bounds or self._algorithm.correction in ("mask", "mask_sequence")

    def rows_with_gradient(self, lesson: Lesson, minibatch: Minibatch) -> list[int]:
        """Return the rows that need a backward pass.

        If the loss depends on advantages alone, rows whose advantages are all 0 have a gradient of 0.
        """
        if (
            self._algorithm.kl.placement in _KL_LOSS
            or self._algorithm.entropy_bonus
            or lesson.targets.returns_BT is not None
        ):
            return list(minibatch.rows)
        counts_BT = minibatch.learnable_BT & (lesson.targets.advantages_BT != 0)
        has_any_B = counts_BT.any(dim=1).tolist()
        return [row for row in minibatch.rows if has_any_B[row]]

    def correct(self, sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor) -> Correction:
        """Correct each row by itself, so that a batch and its micro-batches give the same result."""
        correction = CORRECTIONS[self._algorithm.correction]
        return correction(sampler_logprobs_BT, old_logprobs_BT, mask_BT, self._limits)

    def minibatch(self, lesson: Lesson, rows: Sequence[int], logprobs_BT: Tensor | None) -> Minibatch:
        """Drop tokens, then count the rest; `logprobs_BT`, for ratio bounds, are π_θ's before this step."""
        batch = lesson.batch
        learnable_BT = batch.mask_BT
        if self.may_drop_tokens:
            assert lesson.before.old_logprobs_BT is not None, "what drops tokens is known before the update"
            fix = self.correct(batch.sampler_logprobs_BT, lesson.before.old_logprobs_BT, batch.mask_BT)
            learnable_BT = fix.mask_BT
            if self.has_ratio_bounds and logprobs_BT is not None:
                learnable_BT = self._bounded(logprobs_BT, fix)
        num_learnable_B = torch.zeros(batch.num_rows, dtype=torch.long)
        num_learnable_B[list(rows)] = learnable_BT.sum(dim=1).cpu()[list(rows)]  # others are not in this step
        prompt_B = [sample.group for sample in batch.samples]
        denominators = count(num_learnable_B.tolist(), prompt_B, max_tokens=self._constant_tokens)
        return Minibatch(tuple(rows), learnable_BT, denominators, int(batch.mask_BT[list(rows)].sum()))

    def _bounded(self, logprobs_BT: Tensor, fix: Correction) -> Tensor:
        ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, fix.base_logprobs_BT, fix.mask_BT))
        low, high = self._algorithm.min_ratio, self._algorithm.max_ratio
        return within(
            ratio_BT,
            fix.mask_BT,
            low=0.0 if low is None else low,
            high=float("inf") if high is None else high,
        )

    def shares(self, live: Scores, rows: Sequence[int], lesson: Lesson, minibatch: Minibatch) -> Found:
        """Return the loss shares of these rows of the batch, in the order of `live`."""
        here = _Window(list(rows), live.logprobs_BT.shape[1])
        mask_BT = here.of(minibatch.learnable_BT)
        before = lesson.before.old_logprobs_BT
        old_BT = live.logprobs_BT.detach() if before is None else here.of(before)
        fix = self.correct(here.of(lesson.batch.sampler_logprobs_BT), old_BT, here.of(lesson.batch.mask_BT))
        loss = LOSSES[self._algorithm.loss](
            live.logprobs_BT,
            fix.base_logprobs_BT,
            here.of(lesson.targets.advantages_BT),
            mask_BT,
            self._bounds,
        )
        aggregate = AGGREGATIONS[self._algorithm.aggregation]
        part = minibatch.denominators.of_rows(rows)
        shares = Shares(
            policy=aggregate(loss.losses_BT * fix.weights_BT, mask_BT, part),
            kl=aggregate(self._kl(live, old_BT, mask_BT, here, lesson), mask_BT, part),
            entropy=aggregate(self._entropy(live, mask_BT), mask_BT, part),
            value=self._value_share(live, here, lesson) / max(minibatch.num_own_tokens, 1),
        )
        return Found(shares, loss, old_BT)

    def _kl(self, live: Scores, old_BT: Tensor, mask_BT: Tensor, here: "_Window", lesson: Lesson) -> Tensor:
        name = _KL_LOSS.get(self._algorithm.kl.placement)
        if name is None:
            return torch.zeros_like(old_BT)
        assert lesson.before.ref_logprobs_BT is not None, "the recipe was checked: KL has a reference"
        ref_BT = here.of(lesson.before.ref_logprobs_BT)
        return lesson.kl_coefficient * KL_LOSSES[name](live.logprobs_BT, ref_BT, old_BT, mask_BT)

    def _entropy(self, live: Scores, mask_BT: Tensor) -> Tensor:
        nothing_BT = torch.zeros_like(live.entropy_BT)
        if self._algorithm.entropy_bonus == 0:
            return nothing_BT
        return with_entropy_bonus(nothing_BT, live.entropy_BT, mask_BT, self._algorithm.entropy_bonus)

    def _value_share(self, live: Scores, here: "_Window", lesson: Lesson) -> Tensor:
        """Return the value loss, summed over own tokens."""
        if lesson.before.values is None or lesson.targets.returns_BT is None:
            return live.logprobs_BT.new_zeros(())
        assert live.values_BT is not None, "gae switches the value head on"
        own_BT = here.of(lesson.batch.mask_BT)
        losses_BT = value_loss(
            live.values_BT,
            here.of(lesson.before.values.values_BT),
            here.of(lesson.targets.returns_BT),
            own_BT,
            max_change=self._value.max_change,
        )
        return VALUE_COEFFICIENT * zero_where_masked(losses_BT, own_BT).sum()


@dataclass(frozen=True, slots=True)
class _Window:
    """Some rows of a batch, cut to the width of their micro-batch."""

    rows: list[int]
    width: int

    def of(self, values_BT: Tensor) -> Tensor:
        return values_BT[self.rows, : self.width]
