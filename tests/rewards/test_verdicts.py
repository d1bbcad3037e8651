"""Verdicts explain success: they name the check that decides, and never contradict the outcome."""

from dataclasses import replace

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, TOOLS, did, said
from turnwise.rewards.outcome import is_success
from turnwise.rewards.verdicts import verdicts_of
from turnwise.types import (
    Answer,
    ExpectedWrite,
    FollowUp,
    Matcher,
    Message,
    Reward,
    StateProbe,
    Stop,
    Task,
    Trajectory,
    Truth,
    Turn,
)

NONE = Reward(0.0, {})
ASKED = Truth(
    answer=Answer(185.48, Matcher.NUMERIC, tolerance=0.001),
    writes=(),
    required_tools=(QUOTE,),
    min_tool_calls=1,
)
LOOK = did(QUOTE, symbol="AAPL")
POSTED = did(POST, channel="general", message="x")


def played(truth: Truth, *turns: Turn, stop: Stop = Stop.ANSWERED) -> Trajectory:
    task = Task("t", (Message("user", "What do 2 of AAPL cost?"),), ("market",), truth)
    return Trajectory(task, "e", 1, turns, stop, TOOLS)


CASES = [
    (played(ASKED, LOOK, said("2 of them cost 185.48 in total.")), "185.48", ""),
    (played(ASKED, LOOK, said("They cost 187.48.")), "187.48", "answer"),
    (played(ASKED, said("185.48")), "185.48", "tools"),
    (played(ASKED, LOOK, POSTED, said("185.48")), "185.48", "writes"),
    (played(ASKED, LOOK, stop=Stop.MAX_TURNS), "", "ending"),
    (played(replace(ASKED, forbidden_tools=(QUOTE,)), LOOK, said("185.48")), "185.48", "forbidden tools"),
    (played(replace(ASKED, writes=(ExpectedWrite(POST, {}),)), LOOK, said("185.48")), "185.48", "writes"),
]


@pytest.mark.parametrize(("trajectory", "words", "failed"), CASES)
def test_a_verdict_names_the_first_failed_check(trajectory: Trajectory, words: str, failed: str) -> None:
    [verdict] = verdicts_of(trajectory, NONE)
    assert (verdict.expected, verdict.said, verdict.failed) == ("185.48", words, failed)
    assert is_success(trajectory) == all(verdict.checks.values())


def test_only_checks_that_the_task_has_are_listed() -> None:
    [whole] = verdicts_of(CASES[1][0], NONE)
    assert whole.checks == {"answer": False, "tools": True, "writes": True}
    [cut] = verdicts_of(played(Truth(answer=Answer("x")), stop=Stop.MAX_TURNS), NONE)
    assert cut.checks == {"ending": False, "answer": False}
    [wordless] = verdicts_of(played(Truth(required_tools=(QUOTE,)), LOOK, said("Done.")), NONE)
    assert (wordless.expected, wordless.said, wordless.checks) == (None, "Done.", {"tools": True})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(["Ada", "Bob"], Matcher.ONE_OF), "Ada or Bob"),
        (Answer({"a": [1]}, Matcher.JSON_SUBSET), '{"a": [1]}'),
        (Answer(5, Matcher.NUMERIC, unit="%"), "5 %"),
    ],
)
def test_an_expected_answer_is_shown_as_text(answer: Answer, expected: str) -> None:
    [verdict] = verdicts_of(played(Truth(answer=answer), said("no")), NONE)
    assert verdict.expected == expected


def test_a_probe_that_was_not_run_is_undecided() -> None:
    probe = StateProbe(HISTORY, {"channel": "general"}, "x")
    [verdict] = verdicts_of(played(Truth(probes=(probe,)), said("Done.")), NONE)
    assert (verdict.checks, verdict.failed) == ({"probes": None}, "")


def test_every_message_of_a_conversation_has_a_verdict() -> None:
    more = (FollowUp("And the chief?", Truth(answer=Answer("Ada"))), FollowUp("Thanks.", Truth(writes=())))
    whole = played(ASKED, LOOK, said("185.48"), replace(said("Bob"), user="And the chief?", message=1))
    whole = replace(whole, task=replace(whole.task, conversation=(more[0], replace(more[1], truth=ASKED))))
    first, second, third = verdicts_of(replace(whole, endings=(Stop.ANSWERED,)), NONE)
    assert (first.failed, second.expected, second.said, second.failed) == ("", "Ada", "Bob", "answer")
    assert (third.expected, third.said, third.checks) == ("185.48", "", {"sent": False})


def test_an_environment_or_the_total_decides_if_the_truth_does_not() -> None:
    scored = replace(CASES[0][0], scores={"outcome": 0.5})
    assert verdicts_of(scored, NONE)[0].checks == {"environment": False}
    own = played(Truth(), said("Done."))
    assert verdicts_of(own, NONE)[0].checks == {"reward": False}
    assert verdicts_of(own, Reward(1.0, {}))[0].checks == {"reward": True}
