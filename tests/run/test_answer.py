"""The sentence on a run, with the figures that make and unmake it."""

from dataclasses import replace

import pytest

from turnwise.run.answer import Change, RunCourse, answer_of, success_change, window_of

FINISHED = RunCourse("finished", 40, 40)
RUNNING = RunCourse("running", 24, 40)
BADLY = RunCourse("crashed", 12, 40, "CUDA out of memory.\nmore of it")


def heldout(before: float, after: float, low: float | None, high: float | None) -> RunCourse:
    return replace(FINISHED, heldout=Change(before, after, low, high))


def training(before: float, after: float, low: float, high: float, **more: int) -> RunCourse:
    return replace(RUNNING, training=Change(before, after, low, high), **more)


SENTENCES = [
    (
        heldout(0.23, 0.96, 0.66, 0.79),
        "It learned: success on tasks it never trained on rose from 23% to 96%.",
    ),
    (heldout(0.23, 0.96, 0.0, 0.79), "No change beyond chance: 23% before, 96% after."),
    (heldout(0.23, 0.25, -0.04, 0.08), "No change beyond chance: 23% before, 25% after."),
    (heldout(0.5, 1.0, None, None), "No change beyond chance: 50% before, 100% after."),
    (
        heldout(0.27, 0.0, -0.35, -0.19),
        "It got worse: success on tasks it never trained on fell from 27% to 0%.",
    ),
    (
        heldout(0.955, 0.9625, 0.001, 0.02),
        "It learned: success on tasks it never trained on rose from 95.5% to 96.2%.",
    ),
    (FINISHED, "Finished 40 steps; held-out success was not measured."),
    (
        replace(FINISHED, training=Change(0.36, 0.94, 0.5, 0.7)),
        "Success in training rose from 36% to 94%. Held-out success was not measured.",
    ),
    (
        replace(FINISHED, training=Change(0.36, 0.4, -0.1, 0.2)),
        "No change beyond chance: 36% before, 40% after. Held-out success was not measured.",
    ),
    (training(0.36, 0.91, 0.4, 0.6), "It is learning: 36% of tries succeeded at first, 91% do now."),
    (
        training(0.36, 0.41, -0.05, 0.15),
        "No change to be seen yet: 36% of tries succeeded at first, 41% do now.",
    ),
    (training(0.36, 0.1, -0.4, -0.1), "It is getting worse: 36% of tries succeeded at first, 10% do now."),
    (training(0.36, 0.91, 0.4, 0.6, num_done=4), "Too early to say: 4 of 40 steps."),
    (training(0.36, 0.91, 0.4, 0.6, num_done=0), "Too early to say: no step is finished yet."),
    (RUNNING, "Step 24 of 40; whether it learns is still being read."),
    (RunCourse("stopped", 18, 40), "Stopped at step 18 of 40; it can go on."),
    (BADLY, "Crashed at step 12: CUDA out of memory."),
    (replace(BADLY, num_done=0, reason=""), "Crashed before the first step."),
    (
        replace(BADLY, state="halted", heldout=Change(0.1, 0.9, 0.7, 0.9), reason="alarm alignment"),
        "Halted at step 12: alarm alignment.",
    ),
    (RunCourse("damaged", 0, None, "recipe.json is not there"), "Damaged: recipe.json is not there."),
]


@pytest.mark.parametrize(("run", "words"), SENTENCES)
def test_a_sentence_claims_what_its_figures_allow(run: RunCourse, words: str) -> None:
    assert answer_of(run).words == words


def test_a_change_is_judged_over_groups_not_tries() -> None:
    at_first = [[False] * 8] * 12 + [[True] * 8] * 4
    now = [[True] * 8] * 12 + [[False] * 8] * 4
    change = success_change(at_first, now)
    assert change is not None
    assert (change.before, change.after, change.sign) == (0.25, 0.75, 1)
    few = success_change(at_first[11:13], now[11:13])
    assert few is not None
    assert (few.before, few.after, few.sign) == (0.5, 0.5, 0)
    one = success_change([[False] * 16], [[True] * 16])
    assert one is not None
    assert one.sign == 0, "16 tries of one group are one observation"
    assert success_change([], now) is None


def test_a_window_is_an_eighth_of_the_steps_but_never_more_than_half() -> None:
    assert [window_of(num) for num in (1, 5, 6, 24, 40, 400)] == [1, 2, 3, 5, 5, 51]
