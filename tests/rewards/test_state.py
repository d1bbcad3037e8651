"""Changes and probes: exactly what was asked for, once, and no score where the outcome is unknown."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rewards.episodes import HISTORY, POST, QUOTE, STORE, TOOLS, did, episode, said, together
from turnwise.rewards.state import changes, makes_writes, passes_probes, probes, writes
from turnwise.types import Cause, ExpectedWrite, Parsed, ProbeResult, StateProbe, Stop, ToolCall, Truth, Turn
from turnwise.types.protocols import RewardDown

POSTED = ExpectedWrite(POST, {"channel": "general", "message": "182.31"})
ONE_POST = Truth(writes=(POSTED,))
PROBE = StateProbe(HISTORY, {"channel": "general"}, "182.31")


def post(message: str = "182.31", channel: str = "general", cause: Cause = Cause.OK) -> Turn:
    return did(POST, cause=cause, channel=channel, message=message)


def test_the_expected_change_once_is_right() -> None:
    assert makes_writes(episode(ONE_POST, did(QUOTE, symbol="A"), post(), said("done")))
    assert makes_writes(episode(ONE_POST, post(" 182.31\n", "general "), said("done")))


def test_a_change_that_failed_and_was_made_again_is_made_once() -> None:
    assert makes_writes(episode(ONE_POST, post(cause=Cause.TOOL_ERROR), post(), said("done")))
    assert makes_writes(episode(ONE_POST, post(cause=Cause.BAD_ARGUMENTS), post(), said("done")))


@pytest.mark.parametrize(
    "turns",
    [
        (),
        (post(cause=Cause.TOOL_ERROR),),
        (post(), post()),
        (together(post(), post()),),
        (post(), post("another")),
        (post("another"), post()),
        (post("182.3"),),
        (post(channel="random"),),
        (post(), did(STORE, key="a", value="b")),
        (did(STORE, channel="general", message="182.31"),),
        (did(POST, message="182.31"),),
        (post(), post(cause=Cause.TOO_LARGE)),
    ],
)
def test_any_other_set_of_changes_is_wrong(turns: tuple[Turn, ...]) -> None:
    assert not makes_writes(episode(ONE_POST, *turns, said("done")))


def test_an_empty_list_of_changes_forbids_them_and_none_allows_any() -> None:
    assert makes_writes(episode(Truth(writes=()), did(QUOTE, symbol="A"), said("done")))
    assert not makes_writes(episode(Truth(writes=()), post(), said("done")))
    assert makes_writes(episode(Truth(writes=None), post(), said("done")))


def test_a_tool_that_does_not_say_it_is_read_only_counts_as_a_change() -> None:
    silent = replace(TOOLS[0], is_read_only=False)
    assert not makes_writes(episode(Truth(writes=()), did(QUOTE, symbol="A"), said("x"), tools=[silent]))
    assert not makes_writes(episode(Truth(writes=()), did("unlisted"), said("x")))


def test_mended_names_and_defaults_count_as_given() -> None:
    mended = did(POST, repairs=("text->message",), channel="general", text="182.31")
    assert makes_writes(episode(ONE_POST, mended, said("done")))
    with_default = Truth(writes=(ExpectedWrite(POST, {"message": "182.31", "priority": 3.0}),))
    assert makes_writes(episode(with_default, post(), said("done")))
    urgent = did(POST, channel="general", message="182.31", priority=1)
    assert not makes_writes(episode(with_default, urgent, said("done")))


def test_nested_arguments_must_be_equal_and_not_just_contained() -> None:
    truth = Truth(writes=(ExpectedWrite(STORE, {"value": {"a": [1, "x"]}}),))
    assert makes_writes(episode(truth, did(STORE, key="k", value={"a": [1.0, "x "]}), said("done")))
    assert not makes_writes(episode(truth, did(STORE, key="k", value={"a": [1, "x"], "b": 2}), said("done")))
    assert not makes_writes(episode(truth, did(STORE, key="k", value={"a": [1, "x", 2]}), said("done")))
    assert not makes_writes(episode(truth, did(STORE, key="k", value={"a": [True, "x"]}), said("done")))


def test_the_same_change_can_be_asked_for_twice() -> None:
    twice = Truth(writes=(POSTED, POSTED))
    assert makes_writes(episode(twice, post(), post(), said("done")))
    assert not makes_writes(episode(twice, post(), said("done")))


@given(st.permutations(["a", "b", "c", "d"]))
def test_changes_are_matched_in_any_order(messages: list[str]) -> None:
    # Loose expectations first: each would take a post that only a stricter one can have.
    loose = ExpectedWrite(POST, {"channel": "general"})
    strict = [ExpectedWrite(POST, {"message": message}) for message in "ab"]
    truth = Truth(writes=(loose, loose, *strict))
    assert makes_writes(episode(truth, *map(post, messages), said("done")))
    assert not makes_writes(episode(truth, *map(post, ["b", "c", "d", "d"]), said("done")))


@pytest.mark.parametrize("cause", [Cause.TIMEOUT, Cause.CLOSED, Cause.BAD_REPLY, Cause.UPSTREAM])
def test_a_change_that_may_have_been_made_is_never_scored(cause: Cause) -> None:
    with pytest.raises(RewardDown, match=cause.value):
        makes_writes(episode(ONE_POST, post(cause=cause), said("done")))


def test_a_change_that_never_reached_a_server_was_not_made() -> None:
    assert changes(episode(ONE_POST, post(cause=Cause.BREAKER_OPEN), said("done"))) == []


def test_a_read_that_timed_out_does_not_make_the_changes_unknown() -> None:
    assert makes_writes(episode(ONE_POST, did(QUOTE, cause=Cause.TIMEOUT, symbol="A"), post(), said("done")))


def test_a_call_cut_off_before_its_result_may_have_been_made() -> None:
    unanswered = Turn((), post().completion, Parsed(calls=(ToolCall("1", POST, {}),)))
    assert not makes_writes(episode(ONE_POST, post(), unanswered, stop=Stop.TIME_UP))


def test_a_probe_holds_if_its_text_is_in_an_answer_without_error() -> None:
    truth = Truth(probes=(PROBE,))
    assert passes_probes(episode(truth, said("x"), state="... 182.31 ..."))
    assert not passes_probes(episode(truth, said("x"), state="..."))
    failed = replace(episode(truth, said("x")), probes=(ProbeResult(PROBE, "182.31", is_error=True),))
    assert not passes_probes(failed)


def test_a_probe_of_a_whole_answer_holds_only_if_nothing_else_is_in_it() -> None:
    truth = Truth(probes=(StateProbe(HISTORY, {"channel": "general"}, equals="182.31"),))
    assert passes_probes(episode(truth, said("x"), state=" 182.31\n"))
    assert not passes_probes(episode(truth, said("x"), state="price: 182.31"))
    assert not passes_probes(episode(truth, said("x"), state=""))


def test_a_probe_of_something_removed_holds_only_if_an_answer_without_error_lacks_it() -> None:
    gone = StateProbe(HISTORY, {"channel": "general"}, contains="open", lacks="182.31")
    truth = Truth(probes=(gone,))
    assert passes_probes(episode(truth, said("x"), state="open ..."))
    assert not passes_probes(episode(truth, said("x"), state="open 182.31"))
    assert not passes_probes(episode(truth, said("x"), state="everything was removed"))
    failed = replace(episode(truth, said("x")), probes=(ProbeResult(gone, "not found; open", is_error=True),))
    assert not passes_probes(failed)


def test_a_probe_that_was_never_run_is_not_scored() -> None:
    with pytest.raises(RewardDown, match=HISTORY):
        passes_probes(replace(episode(Truth(probes=(PROBE,)), said("x")), probes=()))


async def test_the_parts_are_one_or_zero() -> None:
    truth = Truth(writes=(POSTED,), probes=(PROBE,))
    right, wrong = episode(truth, post(), said("x"), state="182.31"), episode(truth, said("x"))
    for part in (writes, probes):
        assert (await part(right), await part(wrong)) == (1.0, 0.0)
