"""Tools that must be used, tools that may not, and the small terms beside them."""

import asyncio

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, completion, did, episode, garbled, said, together
from turnwise.rewards.outcome import efficiency, is_success, outcome
from turnwise.rewards.tools import error_rate, forbidden_tools, format_share, milestones, required_tools
from turnwise.types import Answer, Cause, Parsed, Stop, ToolCall, Trajectory, Truth, Turn


def value(part: object, trajectory: Trajectory) -> float:
    assert callable(part)
    found = asyncio.run(part(trajectory))
    assert isinstance(found, float)
    return found


def test_a_required_tool_must_have_been_called_with_success() -> None:
    truth = Truth(required_tools=(QUOTE, HISTORY))
    assert value(required_tools, episode(truth, together(did(QUOTE), did(HISTORY)), said("x"))) == 1
    assert value(required_tools, episode(truth, did(QUOTE), said("x"))) == 0
    assert value(required_tools, episode(truth, did(QUOTE), did(HISTORY, cause=Cause.TOOL_ERROR))) == 0
    assert value(required_tools, episode(Truth(), said("x"))) == 1


def test_only_calls_that_succeed_count_towards_the_least_number() -> None:
    truth = Truth(min_tool_calls=2)
    failed = did(QUOTE, cause=Cause.TOOL_ERROR)
    for part in (required_tools, outcome):
        assert value(part, episode(truth, did(QUOTE), failed, did(HISTORY), said("x"))) == 1
        assert value(part, episode(truth, together(did(QUOTE), did(QUOTE)), said("x"))) == 1
        assert value(part, episode(truth, did(QUOTE), failed, said("x"))) == 0
        assert value(part, episode(truth, said("x"))) == 0


def test_a_forbidden_tool_may_not_even_be_tried() -> None:
    truth = Truth(forbidden_tools=(POST,))
    assert value(forbidden_tools, episode(truth, did(QUOTE), said("x"))) == 1
    assert value(forbidden_tools, episode(truth, did(POST), said("x"))) == 0
    assert value(forbidden_tools, episode(truth, did(POST, cause=Cause.UNKNOWN_TOOL), said("x"))) == 0
    cut_off = Turn((), completion(), Parsed(calls=(ToolCall("0", POST, {}),)))
    assert value(forbidden_tools, episode(truth, cut_off, stop=Stop.TIME_UP)) == 0


def test_a_milestone_is_paid_once() -> None:
    truth = Truth(milestones=(QUOTE, HISTORY, QUOTE))
    assert value(milestones, episode(truth, said("x"))) == 0
    assert value(milestones, episode(truth, did(QUOTE), said("x"))) == 0.5
    assert value(milestones, episode(truth, *[did(QUOTE)] * 4, said("x"))) == 0.5
    assert value(milestones, episode(truth, did(HISTORY), did(QUOTE), said("x"))) == 1
    assert value(milestones, episode(truth, did(QUOTE, cause=Cause.TOOL_ERROR), said("x"))) == 0
    assert value(milestones, episode(Truth(), did(QUOTE), said("x"))) == 0


def test_format_is_the_share_of_turns_without_a_format_error() -> None:
    assert value(format_share, episode(Truth(), garbled(), did(QUOTE), garbled(), said("x"))) == 0.5
    assert value(format_share, episode(Truth(), said("x"))) == 1
    assert value(format_share, episode(Truth(), stop=Stop.CONTEXT_FULL)) == 0


def test_only_errors_of_the_models_own_doing_count() -> None:
    failed, lost = did(QUOTE, cause=Cause.TOOL_ERROR), did(QUOTE, cause=Cause.TIMEOUT)
    assert value(error_rate, episode(Truth(), failed, lost, did(QUOTE), did(QUOTE))) == 0.25
    assert value(error_rate, episode(Truth(), said("x"))) == 0


@pytest.mark.parametrize(
    ("num_calls", "expected"), [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25), (4, 0.0), (9, 0.0)]
)
def test_efficiency_is_what_a_success_left_of_its_limit(num_calls: int, expected: float) -> None:
    truth = Truth(answer=Answer("x"))
    assert value(efficiency, episode(truth, *[did(QUOTE)] * num_calls, said("x"))) == expected
    if num_calls:
        at_once = together(*[did(QUOTE)] * num_calls)
        assert value(efficiency, episode(truth, at_once, said("x"))) == expected


def test_a_failure_has_no_efficiency() -> None:
    assert value(efficiency, episode(Truth(answer=Answer("x")), said("y"))) == 0
    assert value(efficiency, episode(Truth(answer=Answer("x")), said("x"), max_turns=1)) == 0


@pytest.mark.parametrize("truth", [Truth(), Truth(writes=()), Truth(forbidden_tools=(POST,), rubric="good")])
def test_a_truth_that_doing_nothing_would_satisfy_is_an_error(truth: Truth) -> None:
    with pytest.raises(ValueError, match="task 't1'"):
        is_success(episode(truth, said("x")))


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.ANSWERED])
def test_an_episode_that_was_cut_off_is_no_success(stop: Stop) -> None:
    truth = Truth(required_tools=(QUOTE,))
    assert is_success(episode(truth, did(QUOTE), said("x")))
    assert not is_success(episode(truth, did(QUOTE), stop=stop))
