"""Error messages teach allowed values, formats, missing parameters, folders and what a tool needs."""

import pytest

from turnwise.explore.first.error_lessons import lessons_of, needs_of
from turnwise.explore.first.values import Source
from turnwise.types import Tool

SCHEMA = {"properties": {name: {"type": "string"} for name in ("city", "units", "date", "time", "path")}}
WEATHER = Tool("weather", "", SCHEMA, "s", "weather")


def values(message: str) -> list[tuple[str, str]]:
    found = lessons_of(message, WEATHER).values
    assert all(value.source is Source.ERROR for value in found)
    return [(value.name, value.value) for value in found]


@pytest.mark.parametrize(
    "message",
    [
        "units must be one of: metric, imperial",
        "Invalid units 'x'. Valid options are 'metric' and 'imperial'.",
        "units: expected 'metric' | 'imperial'",
        "1 validation error for weather\nunits\n  Input should be 'metric' or 'imperial' [type=literal]",
        '[{"code": "invalid_value", "values": [], "path": ["units"], "message": '
        '"Invalid option: expected one of \\"metric\\"|\\"imperial\\""}]',
        '[{"code": "invalid_enum_value", "options": ["metric", "imperial"], "path": ["units"]}]',
        "'x' is not one of ['metric', 'imperial'] (units)",
        "Unknown units. Supported units: metric | imperial",
    ],
)
def test_allowed_values_are_learned_with_their_parameter(message: str) -> None:
    assert values(message.replace('\\"', '"')) == [("units", "metric"), ("units", "imperial")]


def test_a_suggestion_is_learned() -> None:
    assert values("City 'Pariss' not found. Did you mean 'Paris'?") == [("city", "Paris")]


def test_a_format_is_learned_as_examples_of_it() -> None:
    assert ("date", "2024-03-15") in values("date must be in the format YYYY-MM-DD")
    assert ("time", "14:30") in values("Invalid time. Expected HH:MM [24-hour format]")


def test_a_text_that_must_be_json_is_learned_as_examples_of_it() -> None:
    assert ("city", "[4, 8, 15, 16]") in values("city is not valid JSON: Expecting value: line 1 column 1")


def test_allowed_folders_are_learned() -> None:
    message = "Access denied - path outside allowed directories: /etc/x not in /data, /more"
    assert values(message) == [("path", "/data"), ("path", "/more")]


@pytest.mark.parametrize(
    "message",
    [
        "city is required",
        "weather() missing 1 required positional argument: 'city'",
        "'city' is a required property",
        "1 validation error\ncity\n  Field required [type=missing]",
        '[{"expected": "string", "code": "invalid_type", "path": ["city"], "message": "Required"}]',
        "Missing required parameter: `city`",
    ],
)
def test_missing_parameters_are_named(message: str) -> None:
    assert lessons_of(message, WEATHER).missing == ("city",)
    assert values(message) == []


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        ("API key missing: set WEATHER_API_KEY", "key"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN is not set", "key"),
        ("Request failed with status code 401", "login"),
        ("Unauthorized", "login"),
        ("getaddrinfo ENOTFOUND api.example.com", "network"),
        ("connect ECONNREFUSED 127.0.0.1:5432", "network"),
        ("could not resolve host: example.com", "network"),
        ("page_token is invalid", ""),
        ("value 401 is out of range", ""),
        ("no such table: users", ""),
        ("Access denied - path outside allowed directories: /etc not in /data", ""),
    ],
)
def test_what_a_tool_needs_is_recognised(message: str, needed: str) -> None:
    assert needs_of(message) == needed


@pytest.mark.parametrize(
    "message",
    [
        "expected string, received number",
        "Input should be a valid integer, unable to parse string as an integer",
        "An unexpected thing happened, or something else.",
        "no such table: users",
        "",
    ],
)
def test_prose_teaches_nothing(message: str) -> None:
    assert values(message) == []


@pytest.mark.parametrize(
    "piece", ["'", '"a",', "one of ", "not in /", "e.g. ", "/,", "a or ", "city\n", "API key "]
)
def test_hostile_messages_take_no_time_and_teach_little(piece: str) -> None:
    assert len(lessons_of(piece * 100_000, WEATHER).values) <= 40


def test_a_list_of_what_there_is_belongs_to_the_value_that_is_quoted() -> None:
    schema = {"properties": {"shop": {"type": "string"}, "fruit": {"type": "string"}}}
    stock = Tool("stock", "", schema, "s", "stock")
    message = "nothing called 'kiwi'; there are: apples, pears, plums"
    found = lessons_of(message, stock, {"shop": "north", "fruit": "kiwi"}).values
    assert [(one.name, one.value) for one in found] == [
        ("fruit", "apples"),
        ("fruit", "pears"),
        ("fruit", "plums"),
    ]
