"""Secrets in data are found by their format or their name; ordinary data holds none."""

import pytest

from turnwise.system.secret_values import secrets_in_data


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
