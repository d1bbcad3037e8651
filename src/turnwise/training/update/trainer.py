"""The trainer: one update of the policy from samples of whole groups, with its metrics.

Four distributions are kept apart: μ, the sampler as it sampled; π_old, the policy before the update; π_θ, the
policy during the update; π_ref, the reference that the KL term holds it near.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from turnwise.config import Recipe
from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.algorithms.kl import adapt
from turnwise.training.packing.batch import Batch, batch_of
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.policy.reference import Reference
from turnwise.training.sharding.shards import Shard, local, shard_of
from turnwise.training.update.checkpoint import Chosen
from turnwise.training.update.imitation import weight_at
from turnwise.training.update.objective import VALUE_COEFFICIENT, Objective
from turnwise.training.update.optimizer import Optimizer, scale_of
from turnwise.training.update.scoring import Passes
from turnwise.training.update.statistics import (
    Histogram,
    TokenMismatch,
    Trace,
    first_mismatch,
    metrics_of,
    ratio_histogram,
)
from turnwise.training.update.steps import EMPTY, REASONS, OptimizerStep, Steps
from turnwise.training.update.targets import Before, Lesson, Values, estimate
from turnwise.training.update.tokens import TokenFigures, token_figures

logger = logging.getLogger(__name__)

NUM_TOKEN_GROUPS = 8
"""Groups per update whose figures per token are kept; all groups would be gigabytes in a long run."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of an update."""

    version: int
    metrics: dict[str, float]
    histograms: dict[str, Histogram]
    skipped: str
    """Why no optimizer step was taken; empty if one was. The metrics `skipped/…` count single steps too."""
    tokens: tuple[TokenFigures, ...] = ()
    """The figures of the first NUM_TOKEN_GROUPS groups."""
    mismatch: TokenMismatch | None = None
    """The first token on which engine and trainer disagree too far."""


@dataclass(frozen=True, slots=True)
class _Progress:
    """The trainer's state that is not tensors, saved for a resume."""

    kl_coefficient: float
    version: int = 0
    """The number of updates that changed the policy."""
    num_not_a_number: int = 0
    """Optimizer steps skipped for this reason; the next two fields count the other reasons."""
    num_kl_cap: int = 0
    num_empty: int = 0
    num_not_a_number_in_a_row: int = 0
    """Consecutive updates with a step skipped for this reason."""
    lowered_tokens: int | None = None
    """Tokens per micro-batch after memory ran out; None if it never did."""
    num_kl_cap_in_a_row: int = 0
    """Updates in which the KL cap left no step, since the last update that it did not stop."""
    rate_scale: float = 1.0
    """Factor of the learning rates; every `roll_back` halves it."""


_PROGRESS = TypeAdapter(_Progress)


class Trainer:
    """Holds the policy, its optimizer and its reference, and updates all three."""

    def __init__(self, policy: Policy, recipe: Recipe, ranks: Ranks = ALONE) -> None:
        self.policy = policy
        self._recipe = recipe
        self._reference = Reference(policy, recipe.reference, ranks)
        self._has_value = recipe.algorithm.advantage == "gae"
        self._objective = Objective(recipe)
        self._passes = Passes(
            policy,
            tokens_per_microbatch=recipe.sizes.tokens_per_microbatch,
            is_shared=recipe.update.shared_prefix,
            ranks=ranks,
        )
        options = recipe.optimizer
        self._optimizer = Optimizer(
            policy.trainable,
            policy.value_parameters if self._has_value else {},
            max_gradient_norm=options.max_gradient_norm,
            weight_decay=options.weight_decay,
            betas=options.betas,
            epsilon=options.epsilon,
            scale=scale_of(policy.model.dtype),
            ranks=ranks,
            settle=policy.settle,
            is_offloaded=recipe.sizes.offload,
        )
        self._steps = Steps(self._passes, self._objective, self._optimizer, recipe, ranks)
        self._progress = _Progress(kl_coefficient=recipe.algorithm.kl.coefficient)

    @property
    def version(self) -> int:
        """The number of updates that changed the policy."""
        return self._progress.version

    def update(self, samples: Sequence[Sample], *, step: int, imitation: Sequence[Sample] = ()) -> StepResult:
        """Learn from whole groups; `step`, from 0, alone sets learning rate, shuffle and imitation weight."""
        started = time.perf_counter()
        batch = batch_of(samples)
        if not batch.mask_BT.any():
            return self._finish([EMPTY], {}, {}, step, started)
        lesson = self._lesson(batch)
        trace = Trace(batch)
        steps = self._steps.take(lesson, trace, imitation, step)
        metrics = metrics_of(lesson, trace, version=self.version, loss_name=self._recipe.algorithm.loss)
        metrics |= {"kl/coefficient": lesson.kl_coefficient} if self._reference.exists else {}
        tokens = token_figures(lesson, trace, NUM_TOKEN_GROUPS)
        mismatch = first_mismatch(lesson, trace, self.version) if metrics["tokens/alignment"] < 1 else None
        result = self._finish(steps, metrics, {"ratio": ratio_histogram(trace)}, step, started)
        return replace(result, tokens=tokens, mismatch=mismatch)

    # --- before the first step -----------------------------------------------------------------------------

    def _lesson(self, batch: Batch) -> Lesson:
        coefficient = self._progress.kl_coefficient
        before = self._before(batch)
        targets = estimate(batch, before, self._recipe.algorithm, coefficient)
        return Lesson(batch, before, targets, coefficient)

    def _before(self, batch: Batch) -> Before:
        old_BT, values, ref_BT = None, None, None
        if self._needs_old_logprobs:
            found = self._passes.measure(batch, with_values=self._has_value)
            old_BT = found.logprobs_BT
            if found.values_BT is not None and found.bootstrap_B is not None:
                values = Values(found.values_BT, found.bootstrap_B)
        if self._reference.exists:
            ref_BT = self._passes.measure_reference(batch, self._reference)
        return Before(old_BT, ref_BT, values)

    @property
    def _needs_old_logprobs(self) -> bool:
        """Whether π_old is needed before the update; if not, the single step's own forward pass gives it."""
        update, algorithm = self._recipe.update, self._recipe.algorithm
        return (
            update.num_epochs * update.num_minibatches > 1
            or self._objective.may_drop_tokens
            or algorithm.kl.placement == "reward"
            or self._has_value
        )

    # --- after the last step -------------------------------------------------------------------------------

    def _finish(
        self,
        steps: Sequence[OptimizerStep],
        metrics: dict[str, float],
        histograms: dict[str, Histogram],
        step: int,
        started: float,
    ) -> StepResult:
        taken = [step for step in steps if not step.skipped]
        self._count(steps, has_stepped=bool(taken))
        if taken:
            metrics |= self._reference.follow(self.version)
            self._adapt(metrics)
        skipped = "" if taken else REASONS[steps[-1].skipped]
        for one_step in steps if taken else ():  # if none was taken, the run logs why
            if one_step.skipped:
                logger.info("step %d: an optimizer step was left out: %s", step, REASONS[one_step.skipped])
        metrics |= self._losses(steps) | self._counters(taken, steps, step)
        metrics["time/update_seconds"] = time.perf_counter() - started
        return StepResult(self.version, metrics, histograms, skipped)

    def _count(self, steps: Sequence[OptimizerStep], *, has_stepped: bool) -> None:
        reasons = Counter(step.skipped for step in steps)
        now = self._progress
        self._progress = replace(
            now,
            version=now.version + has_stepped,
            num_not_a_number=now.num_not_a_number + reasons["not_a_number"],
            num_kl_cap=now.num_kl_cap + reasons["kl_cap"],
            num_empty=now.num_empty + reasons["empty"],
            num_not_a_number_in_a_row=now.num_not_a_number_in_a_row + 1 if reasons["not_a_number"] else 0,
            num_kl_cap_in_a_row=now.num_kl_cap_in_a_row + (not has_stepped) if reasons["kl_cap"] else 0,
        )

    def _adapt(self, metrics: Mapping[str, float]) -> None:
        options = self._recipe.algorithm.kl
        if options.target is not None and options.placement != "off":
            kl = metrics["kl/reference"]
            coefficient = adapt(self._progress.kl_coefficient, kl, target=options.target)
            self._progress = replace(self._progress, kl_coefficient=coefficient)

    def _losses(self, steps: Sequence[OptimizerStep]) -> dict[str, float]:
        """Return losses and unclipped gradient norms, averaged over optimizer steps, taken or skipped."""
        tried = [step for step in steps if step.losses]
        if not tried:
            return {}
        names = sorted({name for step in tried for name in step.losses})
        found = {name: math.fsum(step.losses.get(name, 0.0) for step in tried) / len(tried) for name in names}
        limit = self._recipe.optimizer.max_gradient_norm
        found["gradient/norm"] = math.fsum(step.norms.policy for step in tried) / len(tried)
        found["gradient/clipped"] = sum(step.norms.policy > limit for step in tried) / len(tried)
        if self._has_value:
            found["gradient/value_norm"] = math.fsum(step.norms.value for step in tried) / len(tried)
            found["value/loss"] = found["loss/value"] / VALUE_COEFFICIENT
        return found

    def _counters(
        self, taken: Sequence[OptimizerStep], steps: Sequence[OptimizerStep], step: int
    ) -> dict[str, float]:
        now = self._progress
        return {
            "learning_rate": self._steps.rate(step),
            "imitation/weight": weight_at(self._recipe.imitation, step),
            "update/num_optimizer_steps": float(len(taken)),
            "update/num_microbatches": float(sum(step.num_microbatches for step in steps)),
            "update/num_packed_tokens": float(sum(step.num_computed for step in steps)),
            "skipped/not_a_number": float(now.num_not_a_number),
            "skipped/not_a_number_in_a_row": float(now.num_not_a_number_in_a_row),
            "skipped/kl_cap": float(now.num_kl_cap),
            "skipped/kl_cap_in_a_row": float(now.num_kl_cap_in_a_row),
            "skipped/empty": float(now.num_empty),
        }

    # --- state ---------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor | Shard]:
        """Return what a bit-exact resume needs, as `part/name`, not copied; if sharded, this rank's parts."""
        learning = {
            name: (local(parameter).detach(), parameter) for name, parameter in self.policy.learning.items()
        }
        return {
            **{name: shard_of(part, parameter) for name, (part, parameter) in learning.items()},
            **{f"optimizer/{name}": tensor for name, tensor in self._optimizer.tensors().items()},
            **{f"reference/{name}": tensor for name, tensor in self._reference.tensors().items()},
        }

    def facts(self) -> dict[str, Any]:
        """Return the state that is not tensors, ready for JSON."""
        return asdict(replace(self._progress, lowered_tokens=self._passes.lowered_tokens))

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Restore what `tensors` and `facts` returned, bit for bit; ValueError if the policy differs."""
        progress = _PROGRESS.validate_python(facts)
        self.policy.load_state(Chosen(tensors, "policy/", "value/"))
        self._progress = progress
        self._steps.rate_scale = progress.rate_scale
        if self._progress.lowered_tokens is not None:
            self._passes.lower_to(self._progress.lowered_tokens)
        self._optimizer.restore(Chosen(tensors, "optimizer/", is_short=True))
        self._reference.restore(Chosen(tensors, "reference/", is_short=True))

    def roll_back(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Restore an earlier state and halve the learning rate; the version still counts on."""
        now = self._progress
        self.restore(tensors, facts)
        self._progress = replace(
            now,
            kl_coefficient=self._progress.kl_coefficient,
            version=now.version + 1,
            rate_scale=now.rate_scale / 2,
        )
        self._steps.rate_scale = self._progress.rate_scale
