"""Where an episode repeats itself, on turns as they are recorded."""

from dataclasses import replace

import pytest

from tests.rewards.episodes import did, garbled, said
from turnwise.rollout.repetition import SAME_RESULT, Loop, find_repetition, first_repetition, rounds
from turnwise.types import Cause, FormatError, FormatErrorKind, Parsed, Turn


def malformed(written: str, text: str = "") -> Turn:
    error = FormatError(FormatErrorKind.BAD_JSON, "not JSON", written=written)
    return replace(garbled(), parsed=Parsed(text=text, error=error))


def refused(**arguments: object) -> Turn:
    return did("read", "error: no such page", Cause.TOOL_ERROR, **arguments)


def polled(content: str = "pending") -> Turn:
    return did("status", content, job=1)


LS = did("ls", "a.txt", path=".")
CD = did("cd", "error: no such folder", Cause.TOOL_ERROR, path="b")


@pytest.mark.parametrize(
    ("turns", "loop"),
    [
        ([malformed("{x}", "Again:"), malformed("{x}"), malformed("{x}", "Now:")], Loop.MALFORMED),
        ([garbled(FormatErrorKind.EMPTY)] * 3, Loop.MALFORMED),
        ([refused(page=1)] * 3, Loop.REFUSED),
        ([polled()] * 5, Loop.SAME_RESULT),
        ([LS, CD] * 3, Loop.SAME_RESULT),
        ([malformed("{x}"), CD] * 3, Loop.REFUSED),
        ([LS, CD, polled()] * 3, Loop.SAME_RESULT),
    ],
)
def test_a_loop_is_found_with_its_last_turn_and_not_before(turns: list[Turn], loop: Loop) -> None:
    before = did("open", "ok")
    found = find_repetition([before, *turns])
    assert found is not None
    assert (found.loop, found.start, found.end) == (loop, 1, len(turns))
    assert first_repetition([before, *turns[:-1]]) is None


def test_equal_turns_are_compared_by_what_is_called_and_read() -> None:
    assert find_repetition([refused(page=1), refused(page=2), refused(page=1)]) is None
    assert find_repetition([malformed("{x}"), malformed("{y}"), malformed("{x}")]) is None
    one, other = (
        did("f", "error: no", Cause.TOOL_ERROR, a=1, b=2),
        did("f", "error: no", Cause.TOOL_ERROR, b=2, a=1),
    )
    assert find_repetition([one, other, one]) is not None


def test_polling_a_job_is_no_loop_while_its_answer_changes_or_within_four_equal_ones() -> None:
    assert first_repetition([polled(f"{percent}%") for percent in range(12)]) is None
    assert first_repetition([*[polled()] * 4, polled("done")]) is None
    assert first_repetition([polled()] * 9, max_repeats=9) is None


def test_two_turns_that_come_back_twice_are_no_loop_yet() -> None:
    assert first_repetition([LS, CD, LS, CD, LS]) is None


def test_a_message_of_the_user_or_a_text_begins_anew() -> None:
    asked_again = replace(refused(), user="Try page 1 again.")
    assert find_repetition([refused(), refused(), asked_again]) is None
    assert find_repetition([refused(), refused(), said("Which page?"), refused()]) is None
    assert find_repetition([refused(), refused(), asked_again, refused(), refused()]) is not None


def test_the_sentence_that_a_result_is_equal_makes_it_no_different() -> None:
    noted = polled(f"pending\n{SAME_RESULT}")
    assert rounds([polled(), noted, noted]) == 3


def test_rounds_count_what_comes_back_from_its_second_time() -> None:
    assert [rounds([]), rounds([said("hi")]), rounds([refused()]), rounds([refused(), refused()])] == [
        0,
        0,
        1,
        2,
    ]
    assert rounds([LS, CD, LS, CD], cycle=2) == 2


def test_the_first_repetition_of_an_episode_that_went_on_is_found() -> None:
    found = first_repetition([*[refused()] * 4, did("read", "page"), said("done")])
    assert found is not None
    assert (found.start, found.end, found.num_rounds) == (0, 2, 3)
