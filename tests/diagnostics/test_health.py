"""Alarms: every metric has a limit that can be off, warn or halt, and a healthy step raises none."""

import math
from typing import Any, get_args

import pytest

from turnwise.config import Recipe, run
from turnwise.diagnostics.health import CHECKS, Alarm, AlarmLevel, find_alarms, halt_reason

HEALTHY = {
    "tokens/alignment": 1.0,
    "clip/active_fraction": 0.95,
    "kl/reference": 0.01,
    "kl/sampler": 1e-6,
    "mask/learnable_fraction": 1.0,
    "truncation/rate": 0.0,
    "tools/error_rate": 0.1,
    "groups/zero_variance_fraction": 0.25,
    "gradient/norm": 0.4,
    "advantage/zero_fraction": 0.25,
    "ratio/mean": 1.0,
    "ratio/std": 0.0,
    "learning_rate": 1e-5,
    "skipped/not_a_number_in_a_row": 0.0,
    "skipped/kl_cap_in_a_row": 3.0,
    "reference/updated": 1.0,
    "reference/moved": 1.0,
    "reference/num_wrong": 0.0,
}
"""The metrics of a first step: the ratio is exactly 1, its standard deviation 0."""

SICK: dict[str, dict[str, float]] = {
    "alignment": {"tokens/alignment": 0.98},
    "active_fraction": {"clip/active_fraction": 0.49},
    "kl_reference": {"kl/reference": 0.6},
    "kl_sampler": {"kl/sampler": 0.06},
    "learnable_fraction": {"mask/learnable_fraction": 0.29},
    "truncation": {"truncation/rate": 0.31},
    "tool_errors": {"tools/error_rate": 0.51},
    "zero_variance": {"groups/zero_variance_fraction": 1.0},
    "dead_gradient": {"gradient/norm": 0.0},
    "stuck_ratio": {"ratio/std_late": 0.0},
    "not_a_number": {"skipped/not_a_number_in_a_row": 1.0},
    "kl_cap": {"skipped/kl_cap_in_a_row": 10.0},
    "stuck_reference": {"reference/moved": 0.0},
}


HALTING = ("alignment", "kl_cap")
"""The rules that halt by default; the others warn."""


def alarms(**settings: Any) -> list[Alarm]:
    """The alarms with these settings of `health`, and `recipe` for the other sections."""
    metrics, sections = settings.pop("metrics", {}), settings.pop("recipe", {})
    details = settings.pop("details", None)
    recipe = Recipe.model_validate({**sections, "health": settings})
    return find_alarms({**HEALTHY, **metrics}, recipe, details)


def test_every_alarm_of_the_recipe_has_a_check_and_a_case_here() -> None:
    assert set(CHECKS) == set(SICK) == set(get_args(run.Alarm))


def test_a_healthy_first_step_raises_no_alarm() -> None:
    assert alarms() == []
    assert halt_reason([]) == ""


@pytest.mark.parametrize("name", CHECKS)
def test_every_metric_past_its_limit_raises_its_alarm(name: str) -> None:
    [alarm] = alarms(metrics=SICK[name])
    assert alarm.name == name
    assert alarm.level is (AlarmLevel.HALT if name in HALTING else AlarmLevel.WARNING)
    assert CHECKS[name].metric in alarm.message
    assert CHECKS[name].meaning in alarm.message
    assert "Try: " in alarm.message
    assert bool(halt_reason([alarm])) == (name in HALTING)


@pytest.mark.parametrize("name", CHECKS)
def test_every_alarm_can_be_ignored_warn_or_halt(name: str) -> None:
    def levels(**settings: Any) -> list[AlarmLevel]:
        return [alarm.level for alarm in alarms(metrics=SICK[name], **settings)]

    assert levels(halt=(), ignore=(name,)) == []
    assert levels(halt=()) == [AlarmLevel.WARNING]
    assert levels(halt=(name,)) == [AlarmLevel.HALT]


@pytest.mark.parametrize("name", sorted(set(CHECKS) - {"not_a_number"}))
def test_a_nan_is_past_every_limit(name: str) -> None:
    metrics = {CHECKS[name].metric: math.nan}
    found = {alarm.name for alarm in alarms(metrics=metrics)}
    assert found == {name, "not_a_number"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_named(bad: float) -> None:
    [alarm] = alarms(metrics={"loss/policy": bad})
    assert alarm.name == "not_a_number"
    assert "loss/policy" in alarm.message


def test_a_dead_gradient_is_an_alarm_only_with_nonzero_advantages() -> None:
    assert alarms(metrics={"gradient/norm": 0.0, "advantage/zero_fraction": 1.0}) == []


def test_a_constant_ratio_is_correct_at_a_learning_rate_of_zero() -> None:
    assert alarms(metrics={"ratio/std_late": 0.0, "learning_rate": 0.0}) == []
    assert alarms(metrics={"ratio/std_late": 0.01}) == []


def test_a_wrongly_updated_reference_is_an_alarm() -> None:
    [alarm] = alarms(metrics={"reference/num_wrong": 1.0})
    assert alarm.name == "stuck_reference"
    assert alarms(metrics={"reference/updated": 0.0, "reference/moved": 0.0}) == []


def test_metrics_that_a_step_does_not_have_are_skipped() -> None:
    assert find_alarms({}, Recipe()) == []


def test_halts_come_first_with_their_reasons() -> None:
    found = alarms(metrics={**SICK["kl_sampler"], **SICK["alignment"], **SICK["truncation"]})
    assert [alarm.name for alarm in found] == ["alignment", "kl_sampler", "truncation"]
    assert halt_reason(found) == found[0].message


def test_no_remedy_is_suggested_that_the_recipe_has_already() -> None:
    [plain] = alarms(metrics=SICK["zero_variance"], recipe={"rollout": {"dynamic_sampling": False}})
    assert "turn on rollout.dynamic_sampling" in plain.message
    assert "max_draws" not in plain.message
    [dynamic] = alarms(metrics=SICK["zero_variance"], recipe={"rollout": {"dynamic_sampling": True}})
    assert "turn on rollout.dynamic_sampling" not in dynamic.message
    assert "raise rollout.max_draws (now " in dynamic.message
    [frozen] = alarms(metrics=SICK["kl_reference"], recipe={"reference": {"kind": "frozen"}})
    [following] = alarms(metrics=SICK["kl_reference"], recipe={"reference": {"kind": "ema"}})
    assert "reference.kind hard or ema" in frozen.message
    assert "reference.kind" not in following.message


def test_every_alarm_suggests_a_remedy_for_every_recipe() -> None:
    sections = {
        "model": {"dtype": "float32"},
        "rollout": {"dynamic_sampling": True},
        "reference": {"kind": "ema"},
        "curriculum": {"kind": "success"},
    }
    for name in CHECKS:
        [alarm] = alarms(metrics=SICK[name], recipe=sections)
        assert "Try: ." not in alarm.message
        assert ";  " not in alarm.message
        assert "; ;" not in alarm.message


def test_an_alarm_contains_its_details() -> None:
    [alarm] = alarms(metrics=SICK["alignment"], details={"alignment": "first at token 7"})
    assert "(first at token 7)" in alarm.message
    [other] = alarms(metrics=SICK["truncation"], details={"alignment": "first at token 7"})
    assert "token 7" not in other.message
