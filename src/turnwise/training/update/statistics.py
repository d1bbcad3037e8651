"""The metrics of an update, and the histogram of ratios.

All metrics are over the learnable tokens of the whole batch unless they say otherwise. Every sample counts as
the last pass of the update scored it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.system.ranks import Ranks
from turnwise.training.algorithms.gae import explained_variance
from turnwise.training.algorithms.kl import k3
from turnwise.training.packing.batch import Batch, widened
from turnwise.training.policy.policy import Scores
from turnwise.training.update.objective import Found, Minibatch
from turnwise.training.update.targets import Lesson

MAX_DISAGREEMENT = 1.0
"""In nats. If sampler and trainer disagree by this much on a token's log-prob, it counts as misaligned.

The ids themselves are the sampled ones by construction: this detects a score that belongs to another position
or to other weights. A sample that is n versions old may be off by n + 1 times as much.
"""

RATIO_EDGES = tuple(math.exp(0.1 * number - 2.05) for number in range(42))
"""From e^-2.05 to e^2.05 by factors of e^0.1, so that a ratio of exactly 1 is in the middle of a bin."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts between edges; the first and the last count what lies below and above all edges."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenMismatch:
    """A token on whose log-prob sampler and trainer disagree too far (see MAX_DISAGREEMENT)."""

    row: int
    """The index of its sample in the batch."""
    position: int
    """The token's index in its sample, prompt and tool results included, from 0."""
    turn: int
    token_id: int
    sampler_logprob: float
    trainer_logprob: float


class Trace:
    """Values per token, recorded while an update runs; a later pass over a row replaces an earlier one."""

    def __init__(self, batch: Batch) -> None:
        like = batch.sampler_logprobs_BT
        self.logprobs_BT = torch.zeros_like(like)
        self.old_logprobs_BT = torch.zeros_like(like)
        self.entropy_BT = torch.zeros_like(like)
        self.ratio_BT = torch.ones_like(like)
        self.learnable_BT = torch.zeros_like(batch.mask_BT)
        self.is_low_BT = torch.zeros_like(batch.mask_BT)
        self.is_high_BT = torch.zeros_like(batch.mask_BT)
        self.is_dual_BT = torch.zeros_like(batch.mask_BT)
        self.is_late_BT = torch.zeros_like(batch.mask_BT)
        """Scored after an optimizer step with a gradient: the ratio must have moved."""
        self.own_BT = batch.mask_BT
        self.seen_BT = torch.zeros_like(batch.mask_BT)
        """Own tokens that a pass has scored; if the KL cap ended the update, not all of them."""

    def keep(
        self, rows: Sequence[int], live: Scores, found: Found, minibatch: Minibatch, *, is_late: bool
    ) -> None:
        chosen, width = list(rows), self.ratio_BT.shape[1]
        for own, given in (
            (self.logprobs_BT, live.logprobs_BT),
            (self.old_logprobs_BT, found.old_logprobs_BT),
            (self.entropy_BT, live.entropy_BT),
            (self.ratio_BT, found.loss.ratio_BT),
            (self.is_low_BT, found.loss.is_clipped_low_BT),
            (self.is_high_BT, found.loss.is_clipped_high_BT),
            (self.is_dual_BT, found.loss.is_clipped_dual_BT),
        ):
            own[chosen] = widened(given.detach(), width).to(own.dtype)
        self.learnable_BT[chosen] = minibatch.learnable_BT[chosen]
        self.is_late_BT[chosen] = is_late
        self.seen_BT[chosen] = self.own_BT[chosen]

    def add_up(self, rows: Sequence[int], own: Sequence[int], ranks: Ranks) -> None:
        """Combine these rows over ranks: each rank scored its `own` rows, and then has all of them."""
        if ranks.count == 1:
            return
        chosen = list(rows)
        is_other_R = torch.ones(len(chosen), dtype=torch.bool)
        is_other_R[[chosen.index(row) for row in own]] = False
        columns = [
            self.logprobs_BT,
            self.old_logprobs_BT,
            self.entropy_BT,
            self.ratio_BT,
            self.learnable_BT,
            self.is_low_BT,
            self.is_high_BT,
            self.is_dual_BT,
            self.is_late_BT,
            self.seen_BT,
        ]
        kept_CRT = torch.stack([column[chosen].to(self.logprobs_BT.dtype) for column in columns])
        kept_CRT[:, is_other_R] = 0.0
        ranks.add_up([kept_CRT])
        for column, kept_RT in zip(columns, kept_CRT, strict=True):
            column[chosen] = kept_RT.to(column.dtype)


def metrics_of(lesson: Lesson, trace: Trace, *, version: int, loss_name: str) -> dict[str, float]:
    """Return the metrics of tokens, advantages and groups."""
    return {
        **_ratios(lesson, trace),
        **_clips(lesson, trace, loss_name),
        **_divergences(lesson, trace),
        **_agreement(lesson, trace, version),
        **_masks(lesson.batch, trace),
        **_advantages(lesson, trace),
        **_values(lesson),
        "entropy/mean": _mean(trace.entropy_BT[trace.learnable_BT]),
        **_staleness(lesson.batch, version),
    }


def ratio_histogram(trace: Trace) -> Histogram:
    ratios = trace.ratio_BT[trace.learnable_BT].double()
    places = torch.bucketize(ratios, torch.tensor(RATIO_EDGES, dtype=torch.float64, device=ratios.device))
    counts = torch.bincount(places, minlength=len(RATIO_EDGES) + 1)
    return Histogram(RATIO_EDGES, tuple(counts.tolist()))


def divergence(logprobs_BT: Tensor, other_logprobs_BT: Tensor, mask_BT: Tensor) -> float:
    """Return KL(π‖other) per token, by k3 on tokens drawn from π."""
    return _mean(k3(logprobs_BT, other_logprobs_BT, mask_BT)[mask_BT])


def _ratios(lesson: Lesson, trace: Trace) -> dict[str, float]:
    ratios = trace.ratio_BT[trace.learnable_BT].double()
    advantages = lesson.targets.advantages_BT[trace.learnable_BT]
    late = trace.ratio_BT[trace.learnable_BT & trace.is_late_BT].double()
    low, middle, high = _quantiles(ratios, (0.1, 0.5, 0.9))
    found = {
        "ratio/mean": _mean(ratios),
        "ratio/std": _std(ratios),
        "ratio/p10": low,
        "ratio/p50": middle,
        "ratio/p90": high,
        "ratio/max": float(ratios.max()) if len(ratios) else 1.0,
        "ratio/mean_positive": _mean(ratios[advantages > 0], nothing=1.0),
        "ratio/mean_negative": _mean(ratios[advantages < 0], nothing=1.0),
    }
    return {**found, "ratio/std_late": _std(late)} if len(late) else found


def _clips(lesson: Lesson, trace: Trace, loss_name: str) -> dict[str, float]:
    learnable_BT = trace.learnable_BT
    is_clipped_BT = trace.is_low_BT | trace.is_high_BT | trace.is_dual_BT
    if loss_name == "cispo":  # it clips a weight only: the token keeps its gradient
        is_clipped_BT = torch.zeros_like(is_clipped_BT)
    counts_BT = learnable_BT & (lesson.targets.advantages_BT != 0)
    return {
        "clip/active_fraction": _mean((~is_clipped_BT)[counts_BT], nothing=1.0),
        "clip/low_fraction": _mean(trace.is_low_BT[learnable_BT]),
        "clip/high_fraction": _mean(trace.is_high_BT[learnable_BT]),
        "clip/dual_fraction": _mean(trace.is_dual_BT[learnable_BT]),
    }


def _divergences(lesson: Lesson, trace: Trace) -> dict[str, float]:
    """Return KLs over learnable tokens and, as `_unmasked`, over all own tokens that were scored."""
    batch, old_BT = lesson.batch, _old_logprobs(lesson, trace)
    trios = {
        "kl/sampler": (batch.sampler_logprobs_BT, old_BT, batch.mask_BT),
        "kl/old": (old_BT, trace.logprobs_BT, trace.seen_BT),
    }
    if lesson.before.ref_logprobs_BT is not None:
        trios["kl/reference"] = (trace.logprobs_BT, lesson.before.ref_logprobs_BT, trace.seen_BT)
    found = {}
    for name, (left_BT, right_BT, all_BT) in trios.items():
        found[name] = divergence(left_BT, right_BT, trace.learnable_BT)
        found[f"{name}_unmasked"] = divergence(left_BT, right_BT, all_BT)
    return found


def _old_logprobs(lesson: Lesson, trace: Trace) -> Tensor:
    """Return π_old's log-probs of all own tokens; if the update is one step, that step recorded them."""
    before_BT = lesson.before.old_logprobs_BT
    return trace.old_logprobs_BT if before_BT is None else before_BT


def first_mismatch(lesson: Lesson, trace: Trace, version: int) -> TokenMismatch | None:
    """Return the first token, sample by sample, on which sampler and trainer disagree too far."""
    batch, old_BT = lesson.batch, _old_logprobs(lesson, trace)
    places = (batch.mask_BT & ~_is_near(lesson, _apart(lesson, trace), version)).nonzero()
    if not len(places):
        return None
    row, column = places[0].tolist()
    sample = batch.samples[row]
    position = [place for place, is_own in enumerate(sample.loss_mask) if is_own][column]
    return TokenMismatch(
        row=row,
        position=position,
        turn=sample.turns[position],
        token_id=sample.token_ids[position],
        sampler_logprob=float(batch.sampler_logprobs_BT[row, column]),
        trainer_logprob=float(old_BT[row, column]),
    )


def _apart(lesson: Lesson, trace: Trace) -> Tensor:
    """Return the distance between sampler and trainer for every own token, in nats."""
    return (_old_logprobs(lesson, trace) - lesson.batch.sampler_logprobs_BT).abs()


def _is_near(lesson: Lesson, apart_BT: Tensor, version: int) -> Tensor:
    ages_B1 = apart_BT.new_tensor([[version - sample.policy_version] for sample in lesson.batch.samples])
    return apart_BT < MAX_DISAGREEMENT * (1 + ages_B1)


def _agreement(lesson: Lesson, trace: Trace, version: int) -> dict[str, float]:
    """Return how well sampler and trainer agree, over all own tokens."""
    batch, apart_BT = lesson.batch, _apart(lesson, trace)
    apart = apart_BT[batch.mask_BT]
    is_near_BT = _is_near(lesson, apart_BT, version)
    return {
        "sampler/max_abs_difference": float(apart.max()) if len(apart) else 0.0,
        "sampler/mean_abs_difference": _mean(apart),
        "tokens/alignment": _mean(is_near_BT[batch.mask_BT], nothing=1.0),
    }


def _masks(batch: Batch, trace: Trace) -> dict[str, float]:
    """Return the share of own tokens that the update learns from; a correction or a cap drops the others."""
    num_tokens = sum(len(sample.token_ids) for sample in batch.samples)
    num_own, num_learnable = int(batch.mask_BT.sum()), int(trace.learnable_BT.sum())
    return {
        "update/num_tokens": float(num_learnable),
        "mask/learnable_fraction": num_learnable / max(num_own, 1),
        "mask/dropped_fraction": (num_own - num_learnable) / max(num_own, 1),
        "mask/own_fraction": num_own / max(num_tokens, 1),
    }


def _advantages(lesson: Lesson, trace: Trace) -> dict[str, float]:
    advantages = lesson.targets.advantages_BT[trace.learnable_BT].double()
    return {
        "advantage/mean": _mean(advantages),
        "advantage/std": _std(advantages),
        "advantage/min": float(advantages.min()) if len(advantages) else 0.0,
        "advantage/max": float(advantages.max()) if len(advantages) else 0.0,
        "advantage/zero_fraction": _mean(advantages == 0, nothing=1.0),
        "groups/zero_variance_fraction": lesson.targets.zero_variance_fraction,
    }


def _values(lesson: Lesson) -> dict[str, float]:
    if lesson.before.values is None or lesson.targets.returns_BT is None:
        return {}
    values_BT = lesson.before.values.values_BT
    explained = explained_variance(values_BT, lesson.targets.returns_BT, lesson.batch.mask_BT)
    return {
        "value/mean": _mean(values_BT[lesson.batch.mask_BT]),
        "value/explained_variance": explained,
    }


def _staleness(batch: Batch, version: int) -> dict[str, float]:
    ages = [version - sample.policy_version for sample in batch.samples]
    return {"staleness/mean": sum(ages) / max(len(ages), 1), "staleness/max": float(max(ages, default=0))}


def _mean(values: Tensor, nothing: float = 0.0) -> float:
    return float(values.double().mean()) if values.numel() else nothing


def _std(values: Tensor) -> float:
    """Return the population standard deviation; exactly 0 if all values are equal."""
    if not values.numel() or bool((values == values[0]).all()):
        return 0.0
    return float(values.double().std(correction=0))


def _quantiles(values: Tensor, shares: Sequence[float]) -> list[float]:
    # by sorting: torch.quantile refuses more than 16 million entries
    if not values.numel():
        return [1.0] * len(shares)
    ordered = values.sort().values
    found = []
    for share in shares:
        place = share * (len(ordered) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        found.append(float(torch.lerp(low, high, place % 1)))
    return found
