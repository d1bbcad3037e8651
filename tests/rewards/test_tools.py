"""Tools that must be used, tools that must not, and the terms that shape a reward."""

import pytest

from tests.rewards.episodes import HISTORY, POST, QUOTE, completion, did, episode, garbled, said, together
from turnwise.rewards.outcome import efficiency, is_success, outcome
from turnwise.rewards.tools import error_rate, forbidden_tools, format_share, milestones, required_tools
from turnwise.types import Answer, Cause, Parsed, Stop, ToolCall, Truth, Turn


async def test_a_required_tool_must_have_been_called_with_success() -> None:
    truth = Truth(required_tools=(QUOTE, HISTORY))
    assert await required_tools(episode(truth, together(did(QUOTE), did(HISTORY)), said("x"))) == 1
    assert await required_tools(episode(truth, did(QUOTE), said("x"))) == 0
    assert await required_tools(episode(truth, did(QUOTE), did(HISTORY, cause=Cause.TOOL_ERROR))) == 0
    assert await required_tools(episode(Truth(), said("x"))) == 1


async def test_only_calls_that_succeed_count_towards_the_minimum() -> None:
    truth = Truth(min_tool_calls=2)
    failed = did(QUOTE, cause=Cause.TOOL_ERROR)
    for part in (required_tools, outcome):
        assert await part(episode(truth, did(QUOTE), failed, did(HISTORY), said("x"))) == 1
        assert await part(episode(truth, together(did(QUOTE), did(QUOTE)), said("x"))) == 1
        assert await part(episode(truth, did(QUOTE), failed, said("x"))) == 0
        assert await part(episode(truth, said("x"))) == 0


async def test_a_forbidden_tool_may_not_even_be_tried() -> None:
    truth = Truth(forbidden_tools=(POST,))
    assert await forbidden_tools(episode(truth, did(QUOTE), said("x"))) == 1
    assert await forbidden_tools(episode(truth, did(POST), said("x"))) == 0
    assert await forbidden_tools(episode(truth, did(POST, cause=Cause.UNKNOWN_TOOL), said("x"))) == 0
    cut_off = Turn((), completion(), Parsed(calls=(ToolCall("0", POST, {}),)))
    assert await forbidden_tools(episode(truth, cut_off, stop=Stop.TIME_UP)) == 0


async def test_a_milestone_is_rewarded_once() -> None:
    truth = Truth(milestones=(QUOTE, HISTORY, QUOTE))
    assert await milestones(episode(truth, said("x"))) == 0
    assert await milestones(episode(truth, did(QUOTE), said("x"))) == 0.5
    assert await milestones(episode(truth, *[did(QUOTE)] * 4, said("x"))) == 0.5
    assert await milestones(episode(truth, did(HISTORY), did(QUOTE), said("x"))) == 1
    assert await milestones(episode(truth, did(QUOTE, cause=Cause.TOOL_ERROR), said("x"))) == 0
    assert await milestones(episode(Truth(), did(QUOTE), said("x"))) == 0


async def test_format_is_the_share_of_turns_without_a_format_error() -> None:
    assert await format_share(episode(Truth(), garbled(), did(QUOTE), garbled(), said("x"))) == 0.5
    assert await format_share(episode(Truth(), said("x"))) == 1
    assert await format_share(episode(Truth(), stop=Stop.CONTEXT_FULL)) == 0


async def test_only_the_models_own_errors_count() -> None:
    failed, lost = did(QUOTE, cause=Cause.TOOL_ERROR), did(QUOTE, cause=Cause.TIMEOUT)
    assert await error_rate(episode(Truth(), failed, lost, did(QUOTE), did(QUOTE))) == 0.25
    assert await error_rate(episode(Truth(), said("x"))) == 0


@pytest.mark.parametrize(
    ("num_calls", "expected"), [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25), (4, 0.0), (9, 0.0)]
)
async def test_efficiency_is_the_share_of_turns_left_over(num_calls: int, expected: float) -> None:
    truth = Truth(answer=Answer("x"))
    assert await efficiency(episode(truth, *[did(QUOTE)] * num_calls, said("x"))) == expected
    if num_calls:
        at_once = together(*[did(QUOTE)] * num_calls)
        assert await efficiency(episode(truth, at_once, said("x"))) == expected


async def test_a_failure_has_no_efficiency() -> None:
    assert await efficiency(episode(Truth(answer=Answer("x")), said("y"))) == 0
    assert await efficiency(episode(Truth(answer=Answer("x")), said("x"), max_turns=1)) == 0


@pytest.mark.parametrize("truth", [Truth(), Truth(writes=()), Truth(forbidden_tools=(POST,), rubric="good")])
def test_a_truth_that_doing_nothing_would_satisfy_is_an_error(truth: Truth) -> None:
    with pytest.raises(ValueError, match="task 't1'"):
        is_success(episode(truth, said("x")))


ENDED_IN_WORDS = (Stop.ANSWERED, Stop.ENDED, Stop.ENDED_BY_USER)


@pytest.mark.parametrize("stop", ENDED_IN_WORDS)
def test_an_episode_that_ended_in_words_can_succeed(stop: Stop) -> None:
    truth = Truth(answer=Answer("x"), required_tools=(QUOTE,))
    assert is_success(episode(truth, did(QUOTE), said("x"), stop=stop))
    assert not is_success(episode(truth, did(QUOTE), said("y"), stop=stop))
    assert not is_success(episode(Truth(ends_with=POST), did(QUOTE), said("x"), stop=Stop.ENDED_BY_USER))


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop not in ENDED_IN_WORDS])
def test_an_episode_that_was_cut_off_is_no_success(stop: Stop) -> None:
    truth = Truth(required_tools=(QUOTE,))
    assert is_success(episode(truth, did(QUOTE), said("x")))
    assert not is_success(episode(truth, did(QUOTE), stop=stop))
