"""Values are found in answers, mcp.json and descriptions, and ranked for a parameter."""

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.explore import values
from turnwise.explore.first.document import document_of
from turnwise.explore.first.name_words import name_fit, name_words
from turnwise.explore.first.prose_examples import examples_in
from turnwise.explore.first.value_formats import format_of
from turnwise.explore.first.value_sources import config_values, description_values, values_of
from turnwise.explore.first.values import Source, Value, ValueStore
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Tool


def parameter(name: str, **schema: Any) -> Parameter:
    [found] = parameters_of(Tool("t", "", {"properties": {name: {"type": "string", **schema}}}, "s", "t"))
    return found


def answered(text: str, tool_name: str = "", folder: str = "") -> ValueStore:
    return ValueStore(values_of(0, document_of(text), tool_name=tool_name, folder=folder))


def offered(store: ValueStore, wanted: Parameter, limit: int = 20) -> list[Any]:
    return [value.value for value in store.candidates(wanted, limit=limit)]


# --- names, formats, prose ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("channelIDs", ("channel", "id")),
        ("HTTPServer_names", ("http", "server", "name")),
        ("categories", ("category",)),
        ("address", ("address",)),
        ("dir", ("folder",)),
        ("\n", ()),
    ],
)
def test_names_are_split_into_singular_words(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


def test_names_fit_by_words_and_by_the_table_they_are_in() -> None:
    assert name_fit("channel_id", "id", "channels") == 4
    assert name_fit("channel_id", "id", "list_channels") == 4
    assert name_fit("channel_id", "channelId") == 4
    assert name_fit("user_id", "id", "channels") == 0
    assert name_fit("symbol", "ticker") == 0
    assert name_fit("table_name", "name", "tables") > name_fit("table_name", "rows", "tables")
    assert name_fit("ticker", "ticker_symbol") >= values.MIN_FIT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/data/a.txt", "path"),
        ("src/main.py", "path"),
        ("notes.txt", "file"),
        ("https://example.com/x", "url"),
        ("2024-03-15", "date"),
        ("2024-03-15T10:30:00Z", "datetime"),
        ("ann@example.com", "email"),
        ("Europe/Berlin", "timezone"),
        ("EUR", "currency"),
        ("123e4567-e89b-12d3-a456-426614174000", "uuid"),
        ("plain words", ""),
    ],
)
def test_formats_are_recognised(text: str, found: str) -> None:
    assert format_of(text) == found


@pytest.mark.parametrize(
    ("prose", "found"),
    [
        ("The ticker (e.g. AAPL)", ("AAPL",)),
        ("Stock symbol, e.g., AAPL, MSFT or GOOG.", ("AAPL", "MSFT", "GOOG")),
        ("A zone, for example: `Europe/Berlin`", ("Europe/Berlin",)),
        ("The code (such as 'USD')", ("USD",)),
        ("Names like 'ann' or 'bob'", ("ann", "bob")),
        ("One of: metric, imperial", ("metric", "imperial")),
        ("'asc' or 'desc'", ("asc", "desc")),
        ("The user's name, if it's known", ()),
        ("Returns either the row or nothing at all if there is none", ()),
    ],
)
def test_examples_are_found_in_prose(prose: str, found: tuple[str, ...]) -> None:
    assert examples_in(prose) == found


# --- sources ------------------------------------------------------------------------------------------------


def test_answers_give_short_values_with_their_paths() -> None:
    text = json.dumps({"total": 2, "ok": True, "note": "x" * 200, "users": [{"id": 7}, {"id": 8}]})
    found = [(one.value, one.name, one.path) for one in values_of(3, document_of(text))]
    assert found == [(2, "total", ("total",)), (7, "id", ("users", 0, "id")), (8, "id", ("users", 1, "id"))]


def test_names_in_a_listed_folder_are_offered_as_full_paths() -> None:
    store = answered("[FILE] notes.txt\n[DIR] src", tool_name="list_directory", folder="/data")
    assert "/data/notes.txt" in offered(store, parameter("path"))
    assert "/data/src" in offered(store, parameter("path"))


def test_folders_of_mcp_json_and_their_entries_come_first_for_paths(tmp_path: Path) -> None:
    (tmp_path / "b.txt").touch()
    (tmp_path / ".env").touch()
    (tmp_path / "a").mkdir()
    spec = ServerSpec(name="files", command="npx", args=("-y", "@scope/server-files", str(tmp_path)))
    store = ValueStore([Value("/elsewhere", "path", Source.ANSWER), *config_values(spec)])
    assert offered(store, parameter("path"), 4) == [
        str(tmp_path),
        str(tmp_path / "a"),
        str(tmp_path / "b.txt"),
        "/elsewhere",
    ]


def test_a_secret_is_never_offered() -> None:
    secret = "sk-live-4f9A8b7C6d5E"
    spec = ServerSpec(
        name="s",
        command="serve",
        args=("--api-key", secret, f"--url=https://x.example/?key={secret}", "--region=eu"),
        env={"API_TOKEN": secret, "PIN": "123", "MODE": "fast"},
    )
    found = {value.name: value.value for value in config_values(spec)}
    assert found == {"region": "eu", "PIN": "123", "MODE": "fast"}


def test_descriptions_give_examples_under_the_name_of_their_parameter() -> None:
    schema = {"properties": {"symbol": {"type": "string", "description": "e.g. AAPL"}}}
    found = list(description_values(Tool("quote", "", schema, "s", "quote")))
    assert [(one.value, one.name, one.source) for one in found] == [("AAPL", "symbol", Source.DESCRIPTION)]


# --- ranking ------------------------------------------------------------------------------------------------


def test_candidates_are_ranked_by_their_origin() -> None:
    store = ValueStore(
        [
            Value("from answer", "city", Source.ANSWER, 0, ("city",)),
            Value("unrelated", "colour", Source.ANSWER, 0, ("colour",)),
            Value("from user", "city", Source.USER),
            Value("from error", "city", Source.ERROR),
            Value("error of another", "country", Source.ERROR),
        ]
    )
    city = parameter("city", examples=["from schema"], description="A city, e.g. 'from prose'")
    assert offered(store, city, 6) == [
        "from schema",
        "from prose",
        "from error",
        "from user",
        "from answer",
        "unrelated",
    ]


def test_an_enum_leaves_no_other_choice_and_its_default_is_first() -> None:
    store = ValueStore([Value("other", "unit", Source.ANSWER)])
    assert offered(store, parameter("unit", enum=["a", "b"], default="b")) == ["b", "a"]


def test_the_id_of_a_record_fits_the_parameter_that_names_its_table() -> None:
    store = answered('{"users": [{"id": "U1"}], "channels": [{"id": "C1", "name": "general"}]}')
    assert offered(store, parameter("channel_id"), 2) == ["C1", "general"]
    nameless = answered('[{"id": "C1"}, {"id": "C2"}]', tool_name="list_channels")
    assert offered(nameless, parameter("channel_id"), 2) == ["C1", "C2"]


def test_the_columns_of_one_table_are_no_names_of_tables() -> None:
    store = answered(
        "[{'name': 'price', 'type': 'REAL'}, {'name': 'id', 'type': 'TEXT'}]", tool_name="describe_table"
    )
    assert name_fit("table_name", "type", "tables") == 0
    assert all(not one.is_promising for one in store.ranked(parameter("table_name"), limit=5))


def test_sql_is_made_of_the_tables_that_were_found() -> None:
    store = answered("[{'name': 'products'}]", tool_name="list_tables")
    query = parameter("query", description="SELECT SQL query to execute")
    assert offered(store, query, 2) == [
        "SELECT * FROM products LIMIT 20",
        "SELECT COUNT(*) AS num_rows FROM products",
    ]


def test_names_in_answers_are_searched_for() -> None:
    store = answered('{"entities": [{"age": 3, "colour": "red", "name": "ann"}]}')
    assert offered(store, parameter("query"), 2) == ["ann", "red"]


def test_numbers_and_texts_are_converted_to_the_type_of_the_parameter() -> None:
    store = answered('[{"user_id": 7, "age": "31"}]')
    assert offered(store, parameter("user_id"), 1) == ["7"]
    assert offered(store, parameter("age", type="integer"), 1) == [31]


def test_a_parameter_that_wants_a_format_is_offered_no_other_text() -> None:
    store = answered('{"when": "2024-05-01", "who": "ann", "zone": "Asia/Tokyo"}')
    assert offered(store, parameter("start_date"), 1) == ["2024-05-01"]
    assert offered(store, parameter("timezone"), 1) == ["Asia/Tokyo"]
    assert "ann" not in offered(store, parameter("start_date"))


def test_values_that_were_used_less_come_first() -> None:
    store = answered('[{"city": "Ulm"}, {"city": "Bonn"}]')
    city = parameter("city")
    store.count_use(store.candidates(city, limit=1)[0])
    assert offered(store, city, 2) == ["Bonn", "Ulm"]


def test_arrays_are_lists_of_one_and_two_items() -> None:
    store = answered('[{"city": "Ulm"}, {"city": "Bonn"}]')
    cities = parameter("cities", type="array", items={"type": "string"})
    assert offered(store, cities, 2) == [["Ulm"], ["Ulm", "Bonn"]]


def test_objects_are_made_of_their_properties() -> None:
    store = answered('[{"city": "Ulm"}]')
    place = parameter(
        "place", type="object", properties={"city": {"type": "string"}, "radius": {"type": "integer"}}
    )
    assert offered(store, place, 1) == [{"city": "Ulm", "radius": 1}]


def test_an_unrelated_id_is_no_candidate_for_a_count() -> None:
    store = answered('[{"user": 1782828464, "age": 31}]')
    assert offered(store, parameter("limit", type="integer"), 3) == [31, 1, 2]
    assert offered(store, parameter("note"), 1) == ["apple"]


def test_the_store_is_bounded_and_keeps_no_duplicate() -> None:
    store = ValueStore()
    assert store.add(Value(1, "a", Source.ANSWER))
    assert not store.add(Value(1, "a", Source.ERROR))
    assert store.add(Value("1", "a", Source.ANSWER))
    for number in range(3 * values.MAX_PER_SOURCE):
        store.add(Value(number, f"name{number % 100}", Source.ANSWER))
    assert len(store) <= values.MAX_PER_SOURCE


def test_keys_that_name_things_are_values() -> None:
    store = answered('{"sheets": {"Books": {"rows": 80}, "Customers": {"rows": 50}}}', "describe_workbook")
    assert offered(store, parameter("sheet"))[:2] == ["Books", "Customers"]


def test_only_names_of_entries_are_joined_to_a_folder() -> None:
    lines = "On branch main:\n303 B\n@@ -1,3 +1,3 @@\nreport.txt"
    store = answered(lines, tool_name="list_files", folder="/data")
    paths = [one.value for one in store if str(one.value).startswith("/data/")]
    assert paths == ["/data/report.txt"]
    assert not [
        one for one in answered("a.txt\nb.txt", "list_files", "/data/c.csv") if "/data" in str(one.value)
    ]


def test_quoted_words_of_a_parameter_are_examples() -> None:
    prose = "Whether to list local branches ('local'), remote branches ('remote') or all branches('all')."
    assert examples_in(prose) == ("local", "remote", "all")
    assert examples_in("Must match the 'path' parameter.") == ()
    assert examples_in("Default: all sheets.") == ()


def test_a_hash_fits_a_revision() -> None:
    commit = "0e58289d0f52a92849aa07608dd18bcf66328ca5"
    store = answered(f"Commit: {commit}\nAuthor: Ann")
    assert offered(store, parameter("revision"))[0] == commit
    assert format_of("1234567") == ""
