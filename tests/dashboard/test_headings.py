"""The sentences at the head of views, with the figures that make and unmake them."""

from typing import Any

import pytest

from turnwise.dashboard import headings as of
from turnwise.run.answer import Change

BEYOND, CHANCE = Change(0.5, 0.9, 0.2, 0.6), Change(0.5, 0.9, -0.1, 0.9)


def alarm(first: int, last: int, num: int = 2, meaning: str = "most episodes are cut off.") -> dict[str, Any]:
    return {"first": first, "last": last, "num": num, "meaning": meaning, "said": "", "name": "truncation"}


def kinds(every: int, some: int, none: int) -> dict[str, int]:
    return {"all": every, "some": some, "none": none}


def verdict(said: str, expected: str | None, **checks: bool | None) -> dict[str, Any]:
    return {"said": said, "expected": expected, "checks": checks}


def tool(name: str, calls: int, errors: int, infra: int = 0) -> dict[str, Any]:
    return {"tool": name, "num_calls": calls, "num_errors": errors, "num_infra": infra}


SENTENCES = [
    (of.of_runs([]), "No run in this folder yet."),
    (of.of_runs([("a", None)], "Too early to say: 3 of 40 steps."), "Too early to say: 3 of 40 steps."),
    (of.of_runs([("a", None), ("b", 0.96)]), "Best so far: b, with 96% of held-out tasks."),
    (of.of_runs([("a", 0.96), ("b", 0.96)]), "Best so far: 2 runs with 96% of held-out tasks."),
    (
        of.of_runs([("a", None), ("b", None)]),
        "2 runs; none is measured on held-out tasks after training yet.",
    ),
    (
        of.of_comparison(("a", 0.9), [BEYOND, BEYOND]),
        "a is best: 90% of held-out tasks; the 2 others measured are worse by more than chance.",
    ),
    (
        of.of_comparison(("a", 0.9), [BEYOND, CHANCE, None]),
        "a has 90% of held-out tasks; 1 of the 2 others measured is worse by more than chance.",
    ),
    (
        of.of_comparison(("a", 0.9), [CHANCE]),
        "No run is best beyond chance: a has 90% of held-out tasks, and none of the others is worse by more "
        "than that.",
    ),
    (
        of.of_comparison(("a", 0.9), [None]),
        "a has 90% of held-out tasks; no other run is measured on the same tasks.",
    ),
    (
        of.of_comparison(None, []),
        "Which is best cannot be said: no run is measured on held-out tasks after training.",
    ),
    (of.of_health("running", "", [], None), "Too early to say: no step is finished yet."),
    (of.of_health("finished", "", [], 39), "Healthy: no alarm has fired in 40 steps."),
    (
        of.of_health("finished", "", [alarm(1, 29)], 39),
        "No alarm in the last 10 steps; the last one fired at step 29.",
    ),
    (
        of.of_health("finished", "", [alarm(1, 30)], 39),
        "Look at this: since step 1 most episodes are cut off.",
    ),
    (
        of.of_health("running", "", [alarm(38, 38, 1)], 39),
        "Look at this: at step 38 most episodes are cut off.",
    ),
    (
        of.of_health("halted", "", [alarm(3, 31)], 31),
        "An alarm stopped this run at step 31: most episodes are cut off.",
    ),
    (of.of_health("crashed", "ValueError: x\ny", [], 3), "This run crashed: ValueError: x."),
    (of.of_groups([]), "No group of training is played yet."),
    (of.of_groups([kinds(1, 1, 2)] * 2), "In training so far 25% of the groups could teach something."),
    (
        of.of_groups([kinds(0, 4, 0)] * 5 + [kinds(3, 1, 0)] * 10),
        "In the last 10 steps 25% of the groups could teach something.",
    ),
    (of.of_group([True], [["a"]]), "1 of 1 try succeeded."),
    (of.of_group([True, True], [["a", "b"], ["a", "b"]]), "2 of 2 tries succeeded. All did the same."),
    (
        of.of_group([True, False, None, False], [["a", "b"], ["a", "c"], ["a", "d"], ["x", "b"]]),
        "1 of 4 tries succeeded. They part in turn 2, one already in turn 1.",
    ),
    (of.of_group([True, False], [["a", "b"], ["c", "b"]]), "1 of 2 tries succeeded. They part in turn 1."),
    (of.of_episode(True, [verdict("51.9", "51.9", answer=True)], "answered"), "Right: it said 51.9."),
    (
        of.of_episode(False, [verdict("50", "51.9", answer=False)], "answered"),
        "Wrong: it said 50, expected 51.9.",
    ),
    (
        of.of_episode(False, [verdict("51.9", "51.9", answer=True, tools=False)], "answered"),
        "Wrong: it said 51.9, but did not meet the check “tools”.",
    ),
    (
        of.of_episode(False, [verdict("", "51.9", answer=False)], "max_turns"),
        "Wrong: no answer; its turns were used up.",
    ),
    (
        of.of_episode(False, [verdict("a", "a", answer=True), verdict("b", "c", answer=False)], "answered"),
        "Wrong: 1 of 2 messages as asked.",
    ),
    (of.of_episode(None, [], "answered"), "Not judged: its reward could not be computed."),
    (of.of_episode(None, [], "answered", 2), "Started after 2 turns of the plan: no success of the task."),
    (of.of_tools([]), "No tool was called."),
    (of.of_tools([tool("quote", 16, 0)]), "All 16 calls succeeded."),
    (of.of_tools([tool("quote", 16, 4)]), "4 of 16 calls failed, all by the model's doing."),
    (
        of.of_tools([tool("quote", 16, 4), tool("send", 2, 2, 2)]),
        "6 of 18 calls failed, 2 of them by infrastructure, 4 of them calls of quote.",
    ),
    (of.of_tools([tool("send", 2, 2, 2)]), "2 of 2 calls failed, all by infrastructure."),
    (of.of_change(None), "No two evaluations have a task in common."),
    (of.of_change(BEYOND), "Success rose from 50% to 90%, by more than chance."),
    (of.of_change(Change(0.9, 0.5, -0.6, -0.2)), "Success fell from 90% to 50%, by more than chance."),
    (of.of_change(CHANCE), "No change beyond chance: 50% before, 90% after."),
    (of.of_tasks([]), "The run's recipe names no task file."),
    (of.of_tasks([("train", 720), ("test", 120)]), "840 tasks: 720 for train, 120 for the test."),
    (of.of_log([]), "The log is empty."),
    (of.of_log(["info"] * 3), "No warning or error in the last 3 lines."),
    (
        of.of_log(["info", "error", "warning", "error"]),
        "2 lines of errors and 1 line of warnings in the last 4 lines.",
    ),
    (of.of_exploration(60, 21, 25), "60 proved tasks use 21 of 25 tools."),
    (
        of.of_exploration(60, 21, 25, was_interrupted=True),
        "60 proved tasks use 21 of 25 tools. It was interrupted.",
    ),
    (of.of_exploration(0, 0, 25), "No task was proved; 25 tools explored."),
]


@pytest.mark.parametrize(("said", "words"), SENTENCES)
def test_a_heading_says_what_its_figures_are(said: str, words: str) -> None:
    assert said == words
