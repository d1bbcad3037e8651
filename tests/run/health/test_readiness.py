"""When a warm start ends: known answers for each reason, and where it is probed."""

from dataclasses import replace

import pytest

from turnwise.run.health.readiness import Probe, probe_steps, why_ready

YOUNG = Probe(6, 192, well_formed=0.4, success=0.05, solvable=0.2, entropy=0.9)
TAUGHT = Probe(9, 288, well_formed=0.97, success=0.4, solvable=0.75, entropy=0.4)


def test_it_goes_on_until_the_form_is_taught_and_while_more_tasks_become_solvable() -> None:
    assert why_ready([YOUNG]) == ""
    assert why_ready([YOUNG, TAUGHT]) == ""
    assert why_ready([TAUGHT]) == "", "the first probe has nothing to compare with"
    assert why_ready([YOUNG, TAUGHT, replace(TAUGHT, success=0.5, solvable=0.8)]) == ""


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"solvable": 0.75}, "further demonstrations make no more tasks solvable"),
        ({"solvable": 0.7}, "further demonstrations make no more tasks solvable"),
        ({"solvable": 1.0}, "some try solves every task"),
        ({"solvable": 0.9, "success": 0.85}, "tries of one task hardly differ any more"),
        ({"solvable": 0.9, "entropy": 0.04}, "entropy is below 0.05 nats per token"),
    ],
)
def test_it_ends_before_variety_is_gone(changed: dict[str, float], why: str) -> None:
    assert why_ready([YOUNG, TAUGHT, replace(TAUGHT, **changed)]) == why


@pytest.mark.parametrize("lacking", [{"well_formed": 0.69}, {"success": 0.29}])
def test_it_goes_on_if_the_form_is_not_taught_however_little_varies(lacking: dict[str, float]) -> None:
    assert why_ready([TAUGHT, replace(TAUGHT, entropy=0.01, **lacking)]) == ""


def test_probes_are_denser_at_the_beginning_and_few() -> None:
    assert sorted(probe_steps(45)) == [6, 9, 13, 20, 30]
    assert sorted(probe_steps(9)) == [6]
    assert probe_steps(8) == frozenset()
    assert len(probe_steps(10_000)) < 20
