"""The optimizer steps of an update: minibatches of whole groups, epoch by epoch."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from turnwise.config import Recipe
from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.algorithms.kl import is_over_cap
from turnwise.training.packing.batch import minibatches
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Scores
from turnwise.training.update.imitation import cross_entropy, num_own_tokens, weight_at
from turnwise.training.update.objective import Minibatch, Objective
from turnwise.training.update.optimizer import Norms, Optimizer, learning_rate
from turnwise.training.update.scoring import Pass, Passes
from turnwise.training.update.statistics import Trace, divergence
from turnwise.training.update.targets import Lesson

REASONS = {
    "not_a_number": "the loss or a gradient is not a finite number",
    "kl_cap": "KL a token is above algorithm.kl.hard_cap",
    "empty": "there is no learnable token",
}
"""Why an optimizer step may be skipped; weights and moments then stay unchanged."""


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """The optimizer step of one minibatch, taken or skipped."""

    losses: Mapping[str, float]
    norms: Norms
    num_microbatches: int
    num_computed: int
    """Tokens that the model computed, padding included."""
    skipped: str
    """Empty, or a key of REASONS."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What this rank computed before an optimizer step."""

    losses: Mapping[str, float]
    parts: Sequence[Sequence[int]]
    """Row numbers of each micro-batch."""
    num_computed: int


EMPTY = OptimizerStep({}, Norms(0.0, 0.0), 0, 0, "empty")


class Steps:
    """The optimizer steps of a lesson."""

    def __init__(
        self,
        passes: Passes,
        objective: Objective,
        optimizer: Optimizer,
        recipe: Recipe,
        ranks: Ranks = ALONE,
    ) -> None:
        self._ranks = ranks
        self._passes = passes
        self._objective = objective
        self._optimizer = optimizer
        self.rate_scale = 1.0
        """Factor of all learning rates."""
        self._recipe = recipe

    def take(
        self, lesson: Lesson, trace: Trace, imitation: Sequence[Sample], step: int
    ) -> list[OptimizerStep]:
        """Run all epochs and minibatches, demonstrations split among minibatches; stop at the KL cap."""
        update = self._recipe.update
        steps: list[OptimizerStep] = []
        for epoch in range(update.num_epochs):
            parts = minibatches(
                lesson.batch, update.num_minibatches, seed=self._recipe.seed, step=step, epoch=epoch
            )
            for number, rows in enumerate(parts):
                current_BT = self._current(lesson, rows, steps)
                minibatch = self._objective.minibatch(lesson, rows, current_BT)
                steps.append(
                    self._one(lesson, trace, minibatch, imitation[number :: len(parts)], step, steps)
                )
                if steps[-1].skipped == "kl_cap":
                    return steps
        return steps

    def _current(
        self, lesson: Lesson, rows: Sequence[int], earlier: Sequence[OptimizerStep]
    ) -> Tensor | None:
        """Return π_θ's log-probs before a step, if ratio bounds need them; before the first step, π_old's."""
        if not self._objective.has_ratio_bounds:
            return None
        is_first = all(step.skipped for step in earlier)
        return lesson.before.old_logprobs_BT if is_first else self._passes.logprobs_of(lesson.batch, rows)

    def _one(
        self,
        lesson: Lesson,
        trace: Trace,
        minibatch: Minibatch,
        imitation: Sequence[Sample],
        step: int,
        earlier: Sequence[OptimizerStep],
    ) -> OptimizerStep:
        if not minibatch.denominators.num_tokens:
            return EMPTY
        has_moved = any(not step.skipped and step.norms.policy > 0 for step in earlier)
        gather = partial(self._gather, lesson, trace, minibatch, imitation, step, is_late=has_moved)
        gathered = self._passes.within_memory(gather, undo=self._optimizer.clear)
        own_rows = [row for part in gathered.parts for row in part]
        trace.add_up(minibatch.rows, own_rows, self._ranks)
        self._optimizer.share()
        losses, num_parts, num_computed = self._added_up(
            gathered.losses, len(gathered.parts), gathered.num_computed
        )
        losses["loss/total"] = math.fsum(losses.values())
        norms = self._optimizer.norms()
        skipped = self._refusal(lesson, trace, minibatch, losses["loss/total"], norms)
        if skipped:
            self._optimizer.clear()
        else:
            self._optimizer.step(norms, policy_rate=self.rate(step), value_rate=self._value_rate(step))
        return OptimizerStep(dict(losses), norms, num_parts, num_computed, skipped)

    def _gather(
        self,
        lesson: Lesson,
        trace: Trace,
        minibatch: Minibatch,
        imitation: Sequence[Sample],
        step: int,
        *,
        is_late: bool,
    ) -> _Gathered:
        """Run this rank's micro-batches forward and backward; the optimizer accumulates the gradients."""
        losses: dict[str, float] = defaultdict(float)
        taught = self._objective.rows_with_gradient(lesson, minibatch)
        has_gradient = set(taught)
        idle = [row for row in minibatch.rows if row not in has_gradient]
        if taught and idle and self._passes.are_short(lesson.batch.samples, minibatch.rows):
            taught, idle = list(minibatch.rows), []
        has_value = lesson.targets.returns_BT is not None
        with torch.set_grad_enabled(bool(taught)):
            run = self._passes.begin(lesson.batch.samples, taught, idle, with_values=has_value)
        for one_round in run.rounds:
            with torch.set_grad_enabled(one_round.rows[0] in taught):
                if one_round.is_counted:
                    _add(losses, self._learn(run, lesson, trace, minibatch, one_round.rows, is_late=is_late))
                else:
                    self._accompany(run, one_round.rows)
        self._optimizer.gather(run.backward)
        figures, num_imitated = self._imitate(imitation, weight_at(self._recipe.imitation, step))
        _add(losses, figures)
        return _Gathered(losses, run.parts, run.num_computed + num_imitated)

    def _accompany(self, run: Pass, part: Sequence[int]) -> None:
        """Run a filler pass with a loss of 0, while other ranks still have a micro-batch to run."""
        live = run.score(part)
        if torch.is_grad_enabled():
            self._optimizer.learn(_nothing(live))

    def _added_up(self, losses: Mapping[str, float], *counts: int) -> tuple[dict[str, float], int, int]:
        """Sum losses and counts over all ranks, in the order of their numbers."""
        total: dict[str, float] = defaultdict(float)
        num_parts = num_computed = 0
        for theirs, (parts, computed) in self._ranks.exchange((dict(losses), counts)):
            _add(total, theirs)
            num_parts, num_computed = num_parts + parts, num_computed + computed
        return total, num_parts, num_computed

    def _learn(
        self,
        run: Pass,
        lesson: Lesson,
        trace: Trace,
        minibatch: Minibatch,
        part: Sequence[int],
        *,
        is_late: bool,
    ) -> dict[str, float]:
        """Run one micro-batch forward and, if gradients are on, backward; return its loss by term."""
        live = run.score(part)
        found = self._objective.shares(live, part, lesson, minibatch)
        if torch.is_grad_enabled():
            self._optimizer.learn(found.shares.total)
        trace.keep(part, live, found, minibatch, is_late=is_late)
        return found.shares.figures()

    def _imitate(self, samples: Sequence[Sample], weight: float) -> tuple[dict[str, float], int]:
        """Run demonstrations forward and backward; return their loss and how many tokens were computed."""
        if not weight or not samples:
            return {}, 0
        num_tokens, loss = num_own_tokens(samples), 0.0
        run = self._passes.begin(samples)
        for one_round in run.rounds:
            if not one_round.is_counted:
                self._accompany(run, one_round.rows)
                continue
            live = run.score(one_round.rows)
            share = weight * cross_entropy(live.logprobs_BT, live.mask_BT, num_tokens)
            self._optimizer.learn(share)
            loss += float(share.detach())
        self._optimizer.gather(run.backward)
        return {"loss/imitation": loss}, run.num_computed

    def _refusal(self, lesson: Lesson, trace: Trace, minibatch: Minibatch, loss: float, norms: Norms) -> str:
        """Return why this step must be skipped, as a key of REASONS; empty if it may be taken."""
        if not math.isfinite(loss) or not norms.is_finite:
            return "not_a_number"
        rows = list(minibatch.rows)
        # over all own tokens: those that corrections and bounds drop have drifted furthest
        mask_BT, now_BT = lesson.batch.mask_BT[rows], trace.logprobs_BT[rows]
        if lesson.before.ref_logprobs_BT is not None:
            kl = divergence(now_BT, lesson.before.ref_logprobs_BT[rows], mask_BT)
        else:
            kl = divergence(trace.old_logprobs_BT[rows], now_BT, mask_BT)
        return "kl_cap" if is_over_cap(kl, self._recipe.algorithm.kl.hard_cap) else ""

    def rate(self, step: int) -> float:
        """Return the policy's learning rate."""
        return self._scheduled(self._recipe.optimizer.learning_rate, step)

    def _value_rate(self, step: int) -> float:
        return self._scheduled(self._recipe.value.learning_rate, step)

    def _scheduled(self, peak: float, step: int) -> float:
        options = self._recipe.optimizer
        return self.rate_scale * learning_rate(
            peak,
            step,
            schedule=options.schedule,
            warmup_steps=options.warmup_steps,
            num_steps=self._recipe.run.num_steps,
        )


def _nothing(live: Scores) -> Tensor:
    """Return a loss of 0 whose backward pass runs through the same layers as a real one."""
    values = 0.0 if live.values_BT is None else live.values_BT.sum()
    return 0.0 * (live.logprobs_BT.sum() + values)


def _add(losses: dict[str, float], figures: Mapping[str, float]) -> None:
    for name, figure in figures.items():
        losses[name] += figure
