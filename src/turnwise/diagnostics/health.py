"""Alarms on a step's metrics; an alarm says what it means and what to try that the recipe does not have yet.

A ratio of exactly 1 with a standard deviation of 0 is right while nothing has been learned from a batch yet:
no rule looks at it before the first optimizer step of an update has moved the policy.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.config import Recipe, Rule

Metrics = Mapping[str, float]


class Level(StrEnum):
    """What an alarm asks for."""

    WARNING = "warning"
    HALT = "halt"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A figure past its limit."""

    name: str
    """The key under `health` in the recipe that sets the limit."""
    level: Level
    value: float
    threshold: float
    message: str


Remedy = str | Callable[[Recipe], str]
"""What to try; a function says nothing where the recipe has it already."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: where it looks, when that is wrong, and what to say then."""

    metric: str
    is_wrong: Callable[[float, float], bool]
    """(value, threshold); written so that a NaN is wrong."""
    wording: str
    """How value and threshold stand to each other."""
    meaning: str
    remedies: Sequence[Remedy]
    applies: Callable[[Metrics], bool] = lambda metrics: True


def _below(value: float, threshold: float) -> bool:
    return not value >= threshold


def _above(value: float, threshold: float) -> bool:
    return not value <= threshold


def _at_least(value: float, threshold: float) -> bool:
    return not value < threshold


def _at_most(value: float, threshold: float) -> bool:
    return not value > threshold


def _let_the_reference_follow(recipe: Recipe) -> str:
    is_frozen = recipe.reference.kind == "frozen"
    return "let the reference follow (reference.kind hard or ema)" if is_frozen else ""


def _begin_easier(recipe: Recipe) -> str:
    if recipe.curriculum.kind == "uniform":
        return "begin with tasks that succeed sometimes (curriculum.kind)"
    return "add easier tasks to tasks.train"


CHECKS: Mapping[str, Check] = {
    "alignment": Check(
        "tokens/alignment",
        _below,
        "below",
        "the trainer disagrees by more than a nat about tokens the engine sampled, so the trained tokens are "
        "not the sampled ones or the weights are not the same",
        (
            "check that the engine took the last published weights",
            "check that both use one temperature and no top_p",
            "check that nothing re-encodes text between turns",
        ),
    ),
    "active_fraction": Check(
        "clip/active_fraction",
        _below,
        "below",
        "most tokens are clipped and teach nothing",
        (
            "lower optimizer.learning_rate",
            lambda recipe: "lower update.num_epochs" if recipe.update.num_epochs > 1 else "",
            lambda recipe: "lower update.num_minibatches" if recipe.update.num_minibatches > 1 else "",
            "widen algorithm.clip_low and clip_high",
        ),
    ),
    "kl_reference": Check(
        "kl/reference",
        _above,
        "above",
        "the policy has gone far from its reference (nats a token)",
        (
            "raise algorithm.kl.coefficient",
            lambda recipe: "set algorithm.kl.target" if recipe.algorithm.kl.target is None else "",
            "lower optimizer.learning_rate",
            _let_the_reference_follow,
        ),
    ),
    "kl_sampler": Check(
        "kl/sampler",
        _above,
        "above",
        "the engine's distribution is not the trainer's (nats a token)",
        (
            "use one dtype for engine and trainer",
            lambda recipe: "lower run.max_staleness" if recipe.run.mode == "async" else "",
            lambda recipe: "turn on algorithm.correction" if recipe.algorithm.correction == "none" else "",
            "check that sampling has no top_p or penalty",
        ),
    ),
    "learnable_fraction": Check(
        "mask/learnable_fraction",
        _below,
        "below",
        "most sampled tokens are masked: dropped by a correction or by ratio bounds",
        (
            "look at mask/dropped_fraction",
            "widen algorithm.correction_low and correction_high, or min_ratio and max_ratio",
        ),
    ),
    "truncation": Check(
        "truncation/rate",
        _above,
        "above",
        "episodes are cut off before they can answer",
        (
            "raise rollout.tokens_per_turn or rollout.tokens_per_episode",
            "lower tools.max_result_tokens",
            "reward short answers",
        ),
    ),
    "tool_errors": Check(
        "tools/error_rate",
        _above,
        "above",
        "most calls fail by the model's own doing",
        (
            "warm up with `turnwise sft`",
            _begin_easier,
            "offer fewer tools a task",
            "look at the errors in trajectories/",
        ),
    ),
    "zero_variance": Check(
        "groups/zero_variance_fraction",
        _at_least,
        "at or above",
        "in every group all members earned the same reward, so there is nothing to learn from",
        (
            lambda recipe: "" if recipe.rollout.dynamic_sampling else "turn on rollout.dynamic_sampling",
            lambda recipe: (
                f"raise rollout.max_draws (now {recipe.rollout.max_draws:g})"
                if recipe.rollout.dynamic_sampling
                else ""
            ),
            lambda recipe: f"raise rollout.group_size (now {recipe.rollout.group_size})",
            _begin_easier,
            "warm up with `turnwise sft`",
        ),
    ),
    "dead_gradient": Check(
        "gradient/norm",
        _at_most,
        "at or below",
        "advantages are not 0 and yet no parameter has a gradient",
        (
            "check that policy.tuning trains something",
            "check that not every token is clipped or masked",
            lambda recipe: (
                ""
                if recipe.model.dtype == "float32"
                else f"check that the gradient does not underflow in {recipe.model.dtype} (model.dtype)"
            ),
        ),
        applies=lambda metrics: metrics.get("advantage/zero_fraction", 1.0) < 1.0,
    ),
    "stuck_ratio": Check(
        "ratio/std_late",
        _at_most,
        "at or below",
        "the ratio did not move after an optimizer step, so later minibatches learn from stale scores",
        (
            "check that the optimizer holds the parameters that score",
            lambda recipe: (
                ""
                if recipe.model.dtype == "float32"
                else f"raise optimizer.learning_rate: in {recipe.model.dtype} it may be too small to change "
                "a weight"
            ),
        ),
        applies=lambda metrics: metrics.get("learning_rate", 1.0) > 0.0,
    ),
    "not_a_number": Check(
        "skipped/not_a_number_in_a_row",
        _above,
        "above",
        "NaN or infinity was met; optimizer steps that met it were left out and the state is as it was",
        (
            "lower optimizer.learning_rate",
            lambda recipe: "use model.dtype bfloat16" if recipe.model.dtype == "float16" else "",
            "look for rewards that are not numbers",
        ),
    ),
    "kl_cap": Check(
        "skipped/kl_cap_in_a_row",
        _above,
        "above",
        "update after update was left out because the policy is past algorithm.kl.hard_cap from its "
        "reference; as it learns nothing, it will not come back by itself",
        (
            "resume with a higher algorithm.kl.hard_cap",
            _let_the_reference_follow,
            "next time lower optimizer.learning_rate or raise algorithm.kl.coefficient",
        ),
    ),
    "stuck_reference": Check(
        "reference/moved",
        _at_most,
        "at or below",
        "the reference was due to follow the policy and did not get to where it should be",
        (
            "report it with reference/max_error: this is a defect, not a setting",
            'reference.kind = "frozen" to go on without it',
        ),
        applies=lambda metrics: metrics.get("reference/updated", 0.0) > 0.0,
    ),
}
"""By their key in HealthConfig."""


def examine(metrics: Metrics, recipe: Recipe, details: Mapping[str, str] | None = None) -> list[Alarm]:
    """Alarms of one step, halts first; figures that the step does not have are not asked for.

    `details` says by a rule's name what was found where.
    """
    found = [
        alarm
        for name, check in CHECKS.items()
        for alarm in _look(name, check, metrics, recipe, (details or {}).get(name, ""))
    ]
    return sorted(found, key=lambda alarm: alarm.level is not Level.HALT)


def why_halt(alarms: Sequence[Alarm]) -> str:
    """What stops the run; empty if nothing does."""
    return " ".join(alarm.message for alarm in alarms if alarm.level is Level.HALT)


def halting_alarms(alarms: Sequence[Alarm]) -> str:
    """Their names; empty if nothing stops the run."""
    return ", ".join(alarm.name for alarm in alarms if alarm.level is Level.HALT)


def _look(name: str, check: Check, metrics: Metrics, recipe: Recipe, detail: str) -> Iterator[Alarm]:
    rule: Rule = getattr(recipe.health, name)
    value = _value(name, check, metrics)
    if rule.action == "off" or value is None or not check.applies(metrics):
        return
    if check.is_wrong(value, rule.threshold):
        level = Level.HALT if rule.action == "halt" else Level.WARNING
        if name == "not_a_number" and _not_numbers(metrics):
            detail = f"in {', '.join(_not_numbers(metrics))}"
        message = _message(check, recipe, value, rule.threshold, detail)
        yield Alarm(name, level, value, rule.threshold, message)


def _value(name: str, check: Check, metrics: Metrics) -> float | None:
    value = metrics.get(check.metric)
    if name == "not_a_number" and _not_numbers(metrics):
        return max(value or 0.0, 1.0)  # seen in a figure, whether or not a step was left out for it
    if name == "stuck_reference" and metrics.get("reference/num_wrong", 0.0) > 0:
        return 0.0  # it moved, but not to where it should: as bad as not at all
    return value


def _not_numbers(metrics: Metrics) -> Sequence[str]:
    return sorted(name for name, value in metrics.items() if not math.isfinite(value))


def _message(check: Check, recipe: Recipe, value: float, threshold: float, detail: str) -> str:
    where = f" ({detail})" if detail else ""
    given = (remedy if isinstance(remedy, str) else remedy(recipe) for remedy in check.remedies)
    return (
        f"{check.metric} is {value:.4g}, {check.wording} {threshold:g}{where}: {check.meaning}. "
        f"Try: {'; '.join(remedy for remedy in given if remedy)}."
    )
