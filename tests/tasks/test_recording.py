"""Recorded conversations: calls, results and the answer are found in every layout."""

from typing import Any

import pytest

from tests.tasks.legacy_rows import CHANNELS, FAILED, QUOTE, inputs_row, processed_row
from turnwise.tasks.earlier.recording import RecordedCall, Recording, recording_of


def read(row: dict[str, Any]) -> Recording:
    recording = recording_of(row)
    assert recording is not None
    return recording


def test_calls_in_messages_of_their_own_are_read_with_their_results() -> None:
    recording = read(inputs_row())
    assert recording.turns == ((RecordedCall(*QUOTE),), (RecordedCall(*CHANNELS),))
    assert recording.answer == "The quote and the channels are there."


def test_calls_as_json_texts_are_read_from_the_original_conversation() -> None:
    recording = read(processed_row())
    assert recording.turns == ((RecordedCall(*QUOTE),),)
    assert recording.answer == "There it is."


def test_a_call_that_failed_is_marked() -> None:
    recording = read(inputs_row(calls=(FAILED, QUOTE)))
    assert [call.has_failed for call in recording.calls] == [True, False]


@pytest.mark.parametrize(
    "text", ["❌ Slack API error: channel_not_found", "error: no such file", "'NoneType' …"]
)
def test_every_form_of_failure_is_known(text: str) -> None:
    assert read(processed_row(calls=((QUOTE[0], QUOTE[1], text),))).calls[0].has_failed


def test_calls_of_one_message_are_one_turn_and_a_malformed_one_is_left_out() -> None:
    row = inputs_row(calls=(QUOTE,))
    row["prompt"][2]["content"] += (
        '<tool_call>{"name": "list_slack_channels", "arguments": {}}</tool_call><tool_call>{"na</tool_call>'
    )
    [turn] = read(row).turns
    assert [call.name for call in turn] == ["fmp_get_quote", "list_slack_channels"]


def test_a_recording_that_stops_in_a_thought_or_a_result_has_no_answer() -> None:
    assert read(inputs_row(answer="")).answer == ""
    row = inputs_row()
    row["prompt"].pop()
    assert read(row).answer == ""


def test_a_second_question_ends_the_recording() -> None:
    row = inputs_row(calls=(QUOTE,))
    row["prompt"] += [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Now this."}]
    assert read(row).answer == "The quote and the channels are there."


def test_a_row_without_calls_has_no_recording() -> None:
    assert recording_of({"prompt": "How much?"}) is None
    assert recording_of(inputs_row(calls=())) is None
