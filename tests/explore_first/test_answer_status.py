"""Answers that say that a call failed, or found nothing, are no answers to ask about."""

import pytest

from turnwise.explore.first.answer_status import says_error, says_nothing


@pytest.mark.parametrize(
    "text",
    [
        '{"success": false, "message": "Session not found"}',
        '{"status": "error", "message": "Request not found"}',
        '{"status": "task_not_found", "message": "No such task"}',
        '{"ok": false}',
        "The time in Europe/Berlin is Invalid Date.",
    ],
)
def test_failures_in_ordinary_answers_are_recognised(text: str) -> None:
    assert says_error(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"valid": false, "errors": ["line 3: a comma is missing"]}',
        '{"success": true, "error": null, "name": "Ann"}',
        '{"id": 7, "status": "failed", "started": "9:00", "ended": "9:05", "owner": "Ann"}',
    ],
)
def test_answers_about_failures_are_answers(text: str) -> None:
    assert not says_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"products": []}',
        '{"query": "pear", "results": [], "total": 0, "success": true, "message": "Search complete"}',
        '{"searchTerm": "pear", "totalFiles": 3, "matchedFiles": 0, "results": []}',
        "No matching notes found",
        "No results.",
        "Commit history:\n",
    ],
)
def test_answers_without_content_are_recognised(text: str) -> None:
    assert says_nothing(text, {"query": "pear"})


@pytest.mark.parametrize(
    "text",
    ['{"name": "Ann", "age": 0, "tags": []}', "[0]", "No. 7 is the winner", '{"total": 3}', "Notes: 4", "0"],
)
def test_answers_with_content_are_not_empty(text: str) -> None:
    assert not says_nothing(text, {"query": "pear"})
