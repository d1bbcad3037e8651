"""Alarms on the metrics of a step: what is wrong, and remedies that the recipe does not have yet.

A ratio of exactly 1 with a standard deviation of 0 is correct before the first optimizer step of an update.
The rule on the ratio therefore looks only at later minibatches.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.config import Recipe
from turnwise.rollout.measure.losses import CHANCE, MAX_CHANCE, SHARE
from turnwise.run.health.falls import GROUPS_PER_FALSE_ALARM

Metrics = Mapping[str, float]


class AlarmLevel(StrEnum):
    """The consequence of an alarm."""

    WARNING = "warning"
    """Report it and continue."""
    HALT = "halt"
    """Stop the run."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A metric past its limit."""

    name: str
    """Its name in `CHECKS`, and in health.halt and health.ignore of the recipe."""
    level: AlarmLevel
    value: float
    threshold: float
    message: str


Remedy = str | Callable[[Recipe], str]
"""A suggestion; a function returns "" if it does not apply to the recipe."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule: the metric, the condition for an alarm, and its message."""

    metric: str
    relation: str
    """Of a wrong value to the threshold, a key of `_IS_WRONG`."""
    threshold: float
    meaning: str
    remedies: Sequence[Remedy]
    applies: Callable[[Metrics], bool] = lambda metrics: True


_IS_WRONG: Mapping[str, Callable[[float, float], bool]] = {
    "below": lambda value, threshold: not value >= threshold,
    "above": lambda value, threshold: not value <= threshold,
    "at or above": lambda value, threshold: not value < threshold,
    "at or below": lambda value, threshold: not value > threshold,
}
"""True for a NaN, whatever the threshold is."""


def _update_the_reference(kind: str) -> str:
    is_frozen = kind == "frozen"
    return "update the reference during the run (reference.kind hard or ema)" if is_frozen else ""


def _use_easier_tasks(curriculum: str) -> str:
    if curriculum == "uniform":
        return "start with tasks that sometimes succeed (curriculum.kind)"
    return "add easier tasks to tasks.train"


_AFTER_A_FALL: Sequence[Remedy] = (
    "export an earlier checkpoint (turnwise export --step)",
    "lower optimizer.learning_rate",
    lambda recipe: "" if recipe.algorithm.kl.placement != "off" else "turn on algorithm.kl.placement",
    lambda recipe: f"raise run.tasks_per_step (now {recipe.run.tasks_per_step})",
)

_AFTER_LOSSES = (
    "look at the last calls of the lost episodes in the log, and at the servers they went to",
    "look at episodes/lost_* for the reason",
)

CHECKS: Mapping[str, Check] = {
    "alignment": Check(
        "tokens/alignment",
        "below",
        0.99,
        "trainer and engine differ by more than a nat on sampled tokens, so the trained tokens are not the "
        "sampled ones, or the weights differ",
        (
            "check that the engine has the last published weights",
            "check that both use the same temperature and no top_p",
            "check that nothing re-encodes text between turns",
        ),
    ),
    "active_fraction": Check(
        "clip/active_fraction",
        "below",
        0.5,
        "most tokens are clipped and have no gradient",
        (
            "lower optimizer.learning_rate",
            lambda recipe: "lower update.num_epochs" if recipe.update.num_epochs > 1 else "",
            lambda recipe: "lower update.num_minibatches" if recipe.update.num_minibatches > 1 else "",
            "widen algorithm.clip_low and clip_high",
        ),
    ),
    "kl_reference": Check(
        "kl/reference",
        "above",
        0.5,
        "the policy is far from its reference (nats per token)",
        (
            "raise algorithm.kl.coefficient",
            lambda recipe: "set algorithm.kl.target" if recipe.algorithm.kl.target is None else "",
            "lower optimizer.learning_rate",
            lambda recipe: _update_the_reference(recipe.reference.kind),
        ),
    ),
    "kl_sampler": Check(
        "kl/sampler",
        "above",
        0.05,
        "the distributions of engine and trainer differ (nats per token)",
        (
            "use the same dtype for engine and trainer",
            lambda recipe: "lower run.max_staleness" if recipe.run.mode == "async" else "",
            lambda recipe: "turn on algorithm.correction" if recipe.algorithm.correction == "none" else "",
            "check that sampling has no top_p or penalty",
        ),
    ),
    "learnable_fraction": Check(
        "mask/learnable_fraction",
        "below",
        0.3,
        "most sampled tokens are masked: dropped by a correction or by ratio bounds",
        (
            "look at mask/dropped_fraction",
            "raise algorithm.correction_cap, or widen min_ratio and max_ratio",
        ),
    ),
    "truncation": Check(
        "truncation/rate",
        "above",
        0.3,
        "episodes are truncated before they can answer",
        (
            "raise rollout.tokens_per_turn or rollout.tokens_per_episode",
            "lower tools.max_result_tokens",
            "reward short answers",
        ),
    ),
    "tool_errors": Check(
        "tools/error_rate",
        "above",
        0.5,
        "most calls fail because of the model",
        (
            "warm up with `turnwise sft`",
            lambda recipe: _use_easier_tasks(recipe.curriculum.kind),
            "offer fewer tools per task",
            "look at the errors in trajectories/",
        ),
    ),
    "zero_variance": Check(
        "groups/zero_variance_fraction",
        "at or above",
        1.0,
        "in every group all members have the same reward, so there is nothing to learn from",
        (
            lambda recipe: "" if recipe.rollout.dynamic_sampling else "turn on rollout.dynamic_sampling",
            lambda recipe: (
                f"raise rollout.max_draws (now {recipe.rollout.max_draws:g})"
                if recipe.rollout.dynamic_sampling
                else ""
            ),
            lambda recipe: f"raise rollout.group_size (now {recipe.rollout.group_size})",
            lambda recipe: _use_easier_tasks(recipe.curriculum.kind),
            "warm up with `turnwise sft`",
        ),
    ),
    "dead_gradient": Check(
        "gradient/norm",
        "at or below",
        0.0,
        "advantages are not 0, but the gradient of every parameter is",
        (
            "check that policy.tuning trains some parameters",
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
        "at or below",
        0.0,
        "the ratio did not change after an optimizer step, so later minibatches use stale log-probs",
        (
            "check that the optimizer holds the parameters that compute the log-probs",
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
        "above",
        0.0,
        "NaN or infinity occurred; its optimizer steps were skipped and the state is unchanged",
        (
            "lower optimizer.learning_rate",
            lambda recipe: "use model.dtype bfloat16" if recipe.model.dtype == "float16" else "",
            "look for rewards that are NaN or infinite",
        ),
    ),
    "kl_cap": Check(
        "skipped/kl_cap_in_a_row",
        "above",
        9.0,
        "consecutive updates were skipped because the KL of the policy from its reference is above "
        "algorithm.kl.hard_cap; without updates the policy cannot recover",
        (
            "resume with a higher algorithm.kl.hard_cap",
            lambda recipe: _update_the_reference(recipe.reference.kind),
            "next time lower optimizer.learning_rate or raise algorithm.kl.coefficient",
        ),
    ),
    "family_fall": Check(
        "falls/evidence",
        "at or above",
        GROUPS_PER_FALSE_ALARM,
        "the success of a family of training tasks fell further than chance explains",
        _AFTER_A_FALL,
    ),
    "validation_fall": Check(
        "validation/fall_evidence",
        "at or above",
        GROUPS_PER_FALSE_ALARM,
        "success on the validation tasks fell further than chance explains",
        _AFTER_A_FALL,
    ),
    "lost_episodes": Check(
        SHARE,
        "above",
        0.2,
        "many episodes are lost to infrastructure, so that success is known of those only that were played",
        _AFTER_LOSSES,
    ),
    "lost_family": Check(
        CHANCE,
        "at or below",
        MAX_CHANCE,
        "the episodes of a family are lost more often than those of others, and not by chance; the "
        "policy may make its tools fail where it would fail",
        _AFTER_LOSSES,
    ),
    "stuck_reference": Check(
        "reference/moved",
        "at or below",
        0.0,
        "the reference should have been updated to follow the policy and was not, or not correctly",
        (
            "report it with reference/max_error: this is a bug, not a setting",
            'set reference.kind = "frozen" to continue without it',
        ),
        applies=lambda metrics: metrics.get("reference/updated", 0.0) > 0.0,
    ),
}
"""The checks by the name that health.halt and health.ignore use."""


def find_alarms(metrics: Metrics, recipe: Recipe, details: Mapping[str, str] | None = None) -> list[Alarm]:
    """The alarms of one step, halts first; metrics that the step does not have are skipped.

    `details` maps the name of a rule to text that is added to its message.
    """
    found = [
        alarm
        for name, check in CHECKS.items()
        for alarm in _check(name, check, metrics, recipe, (details or {}).get(name, ""))
    ]
    return sorted(found, key=lambda alarm: alarm.level is not AlarmLevel.HALT)


def halt_reason(alarms: Sequence[Alarm]) -> str:
    """The messages of the alarms that stop the run; empty if none does."""
    return " ".join(alarm.message for alarm in alarms if alarm.level is AlarmLevel.HALT)


def halting_alarms(alarms: Sequence[Alarm]) -> str:
    """The names of the alarms that stop the run; empty if none does."""
    return ", ".join(alarm.name for alarm in alarms if alarm.level is AlarmLevel.HALT)


def _check(name: str, check: Check, metrics: Metrics, recipe: Recipe, detail: str) -> Iterator[Alarm]:
    value = _value(name, check, metrics)
    if name in recipe.health.ignore or value is None or not check.applies(metrics):
        return
    if _IS_WRONG[check.relation](value, check.threshold):
        level = AlarmLevel.HALT if name in recipe.health.halt else AlarmLevel.WARNING
        if name == "not_a_number" and _not_finite(metrics):
            detail = f"in {', '.join(_not_finite(metrics))}"
        remedies = [remedy if isinstance(remedy, str) else remedy(recipe) for remedy in check.remedies]
        yield Alarm(name, level, value, check.threshold, _message(check, remedies, value, detail))


def _value(name: str, check: Check, metrics: Metrics) -> float | None:
    value = metrics.get(check.metric)
    if name == "not_a_number" and _not_finite(metrics):
        return max(value or 0.0, 1.0)  # a metric is not finite, even if no step was skipped for it
    if name == "stuck_reference" and metrics.get("reference/num_wrong", 0.0) > 0:
        return 0.0  # it moved, but not to the correct values: as bad as not at all
    return value


def _not_finite(metrics: Metrics) -> Sequence[str]:
    return sorted(name for name, value in metrics.items() if not math.isfinite(value))


def _message(check: Check, remedies: Sequence[str], value: float, detail: str) -> str:
    where = f" ({detail})" if detail else ""
    return (
        f"{check.metric} is {value:.4g}, {check.relation} {check.threshold:g}{where}: {check.meaning}. "
        f"Try: {'; '.join(remedy for remedy in remedies if remedy)}."
    )
