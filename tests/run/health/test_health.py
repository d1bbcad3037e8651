"""Alarms: every metric has a limit that can be off, warn or halt, and a healthy step raises none."""

import math
from typing import Any, get_args

import pytest

from turnwise.config import Recipe, run
from turnwise.run.health.health import CHECKS, Alarm, AlarmLevel, find_alarms, halt_reason

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
    "falls/evidence": 300.0,
    "validation/fall_evidence": 300.0,
    "episodes/lost_share": 0.1,
    "episodes/lost_chance": 0.4,
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
    "family_fall": {"falls/evidence": 50_000.0},
    "validation_fall": {"validation/fall_evidence": 50_000.0},
    "lost_episodes": {"episodes/lost_share": 0.21},
    "lost_family": {"episodes/lost_chance": 0.001},
}

HALTING = ("alignment", "kl_cap")
"""The rules that halt by default; the others warn."""

every_rule = pytest.mark.parametrize("name", CHECKS)


def alarms(metrics: dict[str, float] | None = None, details: Any = None, **sections: Any) -> list[Alarm]:
    """The alarms of a healthy step with these metrics changed, under these sections of the recipe."""
    return find_alarms({**HEALTHY, **(metrics or {})}, Recipe.model_validate(sections), details)


def test_every_alarm_of_the_recipe_has_a_check_and_a_case_here() -> None:
    assert set(CHECKS) == set(SICK) == set(get_args(run.Alarm))


def test_a_healthy_first_step_and_missing_metrics_raise_no_alarm() -> None:
    assert alarms() == []
    assert halt_reason([]) == ""
    assert find_alarms({}, Recipe()) == []


@every_rule
def test_every_metric_past_its_limit_raises_its_alarm(name: str) -> None:
    [alarm] = alarms(SICK[name])
    assert alarm.name == name
    assert alarm.level is (AlarmLevel.HALT if name in HALTING else AlarmLevel.WARNING)
    assert CHECKS[name].metric in alarm.message
    assert CHECKS[name].meaning in alarm.message
    assert "Try: " in alarm.message
    assert bool(halt_reason([alarm])) == (name in HALTING)


@every_rule
def test_every_alarm_can_be_ignored_warn_or_halt(name: str) -> None:
    choices: list[dict[str, Any]] = [{"halt": (), "ignore": (name,)}, {"halt": ()}, {"halt": (name,)}]
    levels = [[alarm.level for alarm in alarms(SICK[name], health=health)] for health in choices]
    assert levels == [[], [AlarmLevel.WARNING], [AlarmLevel.HALT]]


@every_rule
def test_a_nan_is_past_every_limit(name: str) -> None:
    found = {alarm.name for alarm in alarms({CHECKS[name].metric: math.nan})}
    assert found == {name, "not_a_number"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_named(bad: float) -> None:
    [alarm] = alarms({"loss/policy": bad})
    assert alarm.name == "not_a_number"
    assert "loss/policy" in alarm.message


@pytest.mark.parametrize(
    "metrics",
    [
        {"gradient/norm": 0.0, "advantage/zero_fraction": 1.0},
        {"ratio/std_late": 0.0, "learning_rate": 0.0},
        {"ratio/std_late": 0.01},
        {"reference/updated": 0.0, "reference/moved": 0.0},
    ],
    ids=["no advantages", "no learning rate", "a ratio that moves", "a reference that is not due"],
)
def test_metrics_with_a_good_reason_raise_no_alarm(metrics: dict[str, float]) -> None:
    assert alarms(metrics) == []


def test_a_wrongly_updated_reference_is_an_alarm() -> None:
    assert [alarm.name for alarm in alarms({"reference/num_wrong": 1.0})] == ["stuck_reference"]


def test_halts_come_first_with_their_reasons() -> None:
    found = alarms({**SICK["kl_sampler"], **SICK["alignment"], **SICK["truncation"]})
    assert [alarm.name for alarm in found] == ["alignment", "kl_sampler", "truncation"]
    assert halt_reason(found) == found[0].message


@pytest.mark.parametrize(
    ("name", "sections", "suggested", "absent"),
    [
        (
            "zero_variance",
            {"rollout": {"dynamic_sampling": False}},
            "turn on rollout.dynamic_sampling",
            "max_draws",
        ),
        (
            "zero_variance",
            {"rollout": {"dynamic_sampling": True}},
            "raise rollout.max_draws (now ",
            "turn on rollout.dynamic_sampling",
        ),
        ("kl_reference", {"reference": {"kind": "frozen"}}, "reference.kind hard or ema", "max_draws"),
        ("kl_reference", {"reference": {"kind": "ema"}}, "Try: ", "reference.kind"),
    ],
)
def test_suggestions_depend_on_the_recipe(
    name: str, sections: dict[str, Any], suggested: str, absent: str
) -> None:
    [alarm] = alarms(SICK[name], **sections)
    assert suggested in alarm.message
    assert absent not in alarm.message


@every_rule
def test_every_alarm_suggests_a_remedy_even_if_the_recipe_has_most_of_them(name: str) -> None:
    sections = {
        "model": {"dtype": "float32"},
        "rollout": {"dynamic_sampling": True},
        "reference": {"kind": "ema"},
        "curriculum": {"kind": "success"},
    }
    [alarm] = alarms(SICK[name], **sections)
    assert not any(empty in alarm.message for empty in ("Try: .", ";  ", "; ;"))


def test_an_alarm_contains_its_details() -> None:
    details = {"alignment": "first at token 7"}
    assert "(first at token 7)" in alarms(SICK["alignment"], details)[0].message
    assert "token 7" not in alarms(SICK["truncation"], details)[0].message
