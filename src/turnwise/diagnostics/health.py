"""Takes a step's metrics and a HealthConfig, gives alarms: each says what it means and what to try.

A ratio of exactly 1 with a standard deviation of 0 is right while nothing has been learned from a batch yet:
no rule looks at it before the first optimizer step of an update has moved the policy.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.config import HealthConfig, Rule

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


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: where it looks, when that is wrong, and what to say then."""

    metric: str
    is_wrong: Callable[[float, float], bool]
    """(value, threshold); written so that a NaN is wrong."""
    wording: str
    """How value and threshold stand to each other."""
    meaning: str
    remedy: str
    applies: Callable[[Metrics], bool] = lambda metrics: True


def _below(value: float, threshold: float) -> bool:
    return not value >= threshold


def _above(value: float, threshold: float) -> bool:
    return not value <= threshold


def _at_least(value: float, threshold: float) -> bool:
    return not value < threshold


def _at_most(value: float, threshold: float) -> bool:
    return not value > threshold


CHECKS: Mapping[str, Check] = {
    "alignment": Check(
        "tokens/alignment",
        _below,
        "below",
        "the trainer disagrees by more than a nat about tokens the engine sampled, so the trained tokens are "
        "not the sampled ones or the weights are not the same",
        "check that the engine took the last published weights, that both use one temperature and no top_p, "
        "and that nothing re-encodes text between turns; one `turnwise rollout` beside it shows the ids",
    ),
    "active_fraction": Check(
        "clip/active_fraction",
        _below,
        "below",
        "most tokens are clipped and teach nothing",
        "lower optimizer.learning_rate or update.num_epochs and update.num_minibatches, or widen "
        "algorithm.clip_low and clip_high",
    ),
    "kl_reference": Check(
        "kl/reference",
        _above,
        "above",
        "the policy has gone far from its reference (nats a token)",
        "raise algorithm.kl.coefficient or set algorithm.kl.target, lower optimizer.learning_rate, or let "
        "the reference follow (reference.kind hard or ema)",
    ),
    "kl_sampler": Check(
        "kl/sampler",
        _above,
        "above",
        "the engine's distribution is not the trainer's (nats a token)",
        "use one dtype for both, lower run.max_staleness in async mode, keep algorithm.correction on, and "
        "check that sampling has no top_p or penalty",
    ),
    "learnable_fraction": Check(
        "mask/learnable_fraction",
        _below,
        "below",
        "most sampled tokens are masked: forced by a grammar, or dropped by a correction or ratio bounds",
        "see mask/forced_fraction and mask/dropped_fraction; turn constrained decoding off, or widen "
        "algorithm.correction_low and correction_high or min_ratio and max_ratio",
    ),
    "truncation": Check(
        "truncation/rate",
        _above,
        "above",
        "episodes are cut off before they can answer",
        "raise rollout.tokens_per_turn or rollout.tokens_per_episode, lower tools.max_result_tokens, or "
        "reward short answers",
    ),
    "tool_errors": Check(
        "tools/error_rate",
        _above,
        "above",
        "most calls fail by the model's own doing",
        "warm up with `turnwise sft`, begin with easier tasks (curriculum), offer fewer tools a task, and "
        "look at the errors in trajectories/",
    ),
    "zero_variance": Check(
        "groups/zero_variance_fraction",
        _at_least,
        "at or above",
        "the members of a group all earn the same, so there is nothing to learn from",
        "turn on rollout.dynamic_sampling, raise rollout.group_size, choose tasks that succeed sometimes "
        "(curriculum), or warm up with `turnwise sft`",
    ),
    "dead_gradient": Check(
        "gradient/norm",
        _at_most,
        "at or below",
        "advantages are not 0 and yet no parameter has a gradient",
        "check that policy.tuning trains something, that not every token is clipped or masked, and that the "
        "weights are not in a dtype in which the gradient underflows (model.dtype)",
        applies=lambda metrics: metrics.get("advantage/zero_fraction", 1.0) < 1.0,
    ),
    "stuck_ratio": Check(
        "ratio/std_late",
        _at_most,
        "at or below",
        "the ratio did not move after an optimizer step, so later minibatches learn from stale scores",
        "check that the optimizer holds the parameters that score; with model.dtype below float32 the "
        "learning rate may be too small to change a weight",
        applies=lambda metrics: metrics.get("learning_rate", 1.0) > 0.0,
    ),
    "not_a_number": Check(
        "skipped/not_a_number_in_a_row",
        _above,
        "above",
        "NaN or infinity was met; optimizer steps that met it were left out and the state is as it was",
        "lower optimizer.learning_rate, use model.dtype bfloat16 in place of float16, and look for rewards "
        "that are not numbers",
    ),
    "kl_cap": Check(
        "skipped/kl_cap_in_a_row",
        _above,
        "above",
        "update after update was left out because the policy is past algorithm.kl.hard_cap from its "
        "reference; as it learns nothing, it will not come back by itself",
        "resume with a higher algorithm.kl.hard_cap, or with a reference that follows (reference.kind hard "
        "or ema); next time lower optimizer.learning_rate or raise algorithm.kl.coefficient",
    ),
    "stuck_reference": Check(
        "reference/moved",
        _at_most,
        "at or below",
        "the reference was due to follow the policy and did not get to where it should be",
        'this is a defect, not a setting: report it with reference/max_error; reference.kind = "frozen" goes '
        "on without it",
        applies=lambda metrics: metrics.get("reference/updated", 0.0) > 0.0,
    ),
}
"""By their key in HealthConfig."""


def examine(metrics: Metrics, config: HealthConfig) -> list[Alarm]:
    """Alarms of one step, halts first; figures that the step does not have are not asked for."""
    found = [alarm for name, check in CHECKS.items() for alarm in _look(name, check, metrics, config)]
    return sorted(found, key=lambda alarm: alarm.level is not Level.HALT)


def why_halt(alarms: Sequence[Alarm]) -> str:
    """What stops the run; empty if nothing does."""
    return " ".join(alarm.message for alarm in alarms if alarm.level is Level.HALT)


def halting_alarms(alarms: Sequence[Alarm]) -> str:
    """Their names; empty if nothing stops the run."""
    return ", ".join(alarm.name for alarm in alarms if alarm.level is Level.HALT)


def _look(name: str, check: Check, metrics: Metrics, config: HealthConfig) -> Iterator[Alarm]:
    rule: Rule = getattr(config, name)
    value = _value(name, check, metrics)
    if rule.action == "off" or value is None or not check.applies(metrics):
        return
    if check.is_wrong(value, rule.threshold):
        level = Level.HALT if rule.action == "halt" else Level.WARNING
        yield Alarm(name, level, value, rule.threshold, _message(check, metrics, value, rule.threshold))


def _value(name: str, check: Check, metrics: Metrics) -> float | None:
    value = metrics.get(check.metric)
    if name == "not_a_number" and _not_numbers(metrics):
        return max(value or 0.0, 1.0)  # seen in a figure, whether or not a step was left out for it
    if name == "stuck_reference" and metrics.get("reference/num_wrong", 0.0) > 0:
        return 0.0  # it moved, but not to where it should: as bad as not at all
    return value


def _not_numbers(metrics: Metrics) -> Sequence[str]:
    return sorted(name for name, value in metrics.items() if not math.isfinite(value))


def _message(check: Check, metrics: Metrics, value: float, threshold: float) -> str:
    where = f" (in {', '.join(_not_numbers(metrics))})" if check is CHECKS["not_a_number"] else ""
    return (
        f"{check.metric} is {value:.4g}, {check.wording} {threshold:g}{where.replace(' (in )', '')}: "
        f"{check.meaning}. Try: {check.remedy}."
    )
