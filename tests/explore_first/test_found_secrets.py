"""Tasks that explore finds at servers whose answers show keys and passwords."""

import asyncio
import json

import pytest

from tests.explore_first.exploring import SECRETIVE, explored
from tests.explore_first.servers.vault import KEYS, PASSWORDS
from turnwise.explore.exploration import Exploration
from turnwise.explore.first.report_json import as_json
from turnwise.system.secret_values import secrets_in_data
from turnwise.tasks.rows import row_of


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return asyncio.run(explored(tmp_path_factory.mktemp("explored"), SECRETIVE, num_tasks=40))


def test_no_secret_that_a_tool_shows_gets_into_a_task_or_the_report(found: Exploration) -> None:
    for written in (*(row_of(task) for task in found.tasks), as_json(found)):
        text = json.dumps(written)
        assert not [secret for secret in (*KEYS, *PASSWORDS) if secret in text], text[:2_000]


def test_what_is_no_secret_beside_them_is_still_asked_about(found: Exploration) -> None:
    answers = {str(task.truth.answer.value) for task in found.tasks if task.truth.answer is not None}
    assert answers & {"Bremen", "Cork", "Graz", "Lund", "Turku", "Vaduz"}
    assert any(
        "[redacted]" in result.content
        for task in found.tasks
        for turn in task.demonstration
        for result in turn.results
    )


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('{"api_key": "q7Xr2Lm9Tz4Bw8Kc"}', "q7Xr2Lm9Tz4Bw8Kc"),
        ('"{\\"password\\": \\"tr0ub4dor\\"}"', "tr0ub4dor"),
        ("DB_PASSWORD=tr0ub4dor\nDB_HOST=db-7.local", "tr0ub4dor"),
        ("Authorization: Bearer q7Xr2Lm9Tz4Bw8Kc", "q7Xr2Lm9Tz4Bw8Kc"),
        ("see sk-proj-8d7f6a5b4c3e for it", "sk-proj-8d7f6a5b4c3e"),
        ("postgres://me:tr0ub4dor@db.local:5432/shop", "tr0ub4dor"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----", "MIIEvQIBADANBg"),
    ],
)
def test_a_secret_in_data_is_found_by_its_format_or_its_name(text: str, secret: str) -> None:
    assert secrets_in_data(text) == {secret}


@pytest.mark.parametrize(
    "text",
    [
        '{"key": "PROJ-1234", "summary": "Login fails", "tokens": 512000}',
        "commit 4f0c2a9be1d84b7f9c3a5d6e7f801234 by Ada Holm",
        '{"password": {"type": "string", "description": "password: required, at least 8"}}',
        "token: ${API_TOKEN}",
        "session: Understanding attention",
        "task-2024-11-15 and disk-0123456789012",
        "https://example.com/a:b@c/d",
    ],
)
def test_ordinary_data_holds_no_secret(text: str) -> None:
    assert secrets_in_data(text) == set()
