"""Answers of tools are read as fields and tables, whatever their text format, and within bounds."""

import json
import string
from random import Random

import pytest

from turnwise.explore import document as limits
from turnwise.explore.first.answer_status import says_error
from turnwise.explore.first.document import Document, document_of
from turnwise.mcp.calls.results import cut


def fields(text: str) -> dict[tuple[str | int, ...], object]:
    return {field.path: field.value for field in document_of(text).fields}


def rows(text: str) -> list[dict[str, object]]:
    [table] = document_of(text).tables
    return [dict(row) for row in table.rows]


# --- JSON ---------------------------------------------------------------------------------------------------


def test_fields_of_an_object_are_found_by_path_and_null_is_left_out() -> None:
    text = json.dumps({"city": "Ulm", "now": {"temp": 3.5, "wet": True, "wind": None}})
    assert fields(text) == {("city",): "Ulm", ("now", "temp"): 3.5, ("now", "wet"): True}


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": 1}, {"id": 2}]',
        json.dumps([{"id": 1}, {"id": 2}], indent=2),
        'Found 2 users:\n[{"id": 1}, {"id": 2}]',
        'Found 2 users: [{"id": 1}, {"id": 2}]',
        '[{"id": 1}, {"id": 2}]\nUse next_page for more.',
        '```json\n[{"id": 1}, {"id": 2}]\n```',
        '{"id": 1}\n{"id": 2}',
        '{\n  "id": 1\n}\n{\n  "id": 2\n}',
        json.dumps('[{"id": 1}, {"id": 2}]'),
        "[{'id': 1}, {'id': 2}]",
    ],
)
def test_records_are_a_table_however_the_json_is_written(text: str) -> None:
    assert rows(text) == [{"id": 1}, {"id": 2}]


def test_a_record_inside_a_row_is_flattened_and_a_list_inside_it_is_a_table_of_its_own() -> None:
    text = json.dumps(
        {"repos": [{"name": "a", "owner": {"login": "ann"}, "tags": ["x", "y"]}, {"name": "b"}]}
    )
    document = document_of(text)
    assert document.table(("repos",)).columns == ("name", "owner.login")
    assert document.table(("repos",)).rows[0] == {"name": "a", "owner.login": "ann"}
    assert document.table(("repos", 0, "tags")).rows == ({"item": "x"}, {"item": "y"})


def test_the_cells_of_a_table_with_one_row_are_fields_too() -> None:
    assert fields('[{"count": 5}]') == {(0, "count"): 5}


def test_a_bare_value_is_a_field_without_a_path() -> None:
    assert fields("42") == {(): 42}
    assert fields("hello") == {(): "hello"}


def test_a_sentence_that_ends_in_a_number_has_a_result() -> None:
    text = "The sum of 2 and 3 is 5."
    assert fields(text) == {(): text, ("result",): 5}
    assert fields("Version 2 was released in 2024.") == {(): "Version 2 was released in 2024."}


def test_empty_texts_are_left_out_of_fields_and_rows() -> None:
    assert document_of('{"content": ""}').fields == ()
    assert rows('[{"a": "", "b": 1}, {"a": "x", "b": 2}]') == [{"b": 1}, {"a": "x", "b": 2}]


def test_numbers_that_json_cannot_state_and_halves_of_characters_are_left_out() -> None:
    assert fields('{"a": NaN, "b": 1e999, "c": "\\ud800", "d": 1}') == {("d",): 1}


# --- text ---------------------------------------------------------------------------------------------------


def test_a_markdown_table_is_read_by_column() -> None:
    text = "# Stock\n\n| Name | Price |\n|:---|---:|\n| **Pen** | 1.5 |\n| Ink | 12 |\n"
    assert document_of(text).table(("Stock",)).rows == (
        {"Name": "Pen", "Price": 1.5},
        {"Name": "Ink", "Price": 12},
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_separated_values_under_a_header_are_a_table(delimiter: str) -> None:
    text = "\n".join(delimiter.join(cells) for cells in (("name", "age"), ("ann", "31"), ('"b o b"', "7")))
    assert rows(text) == [{"name": "ann", "age": 31}, {"name": "b o b", "age": 7}]


def test_sentences_with_commas_are_lines_and_not_a_table() -> None:
    text = "Dear reader, this is prose.\nIt has commas, too.\nAnd it ends, here."
    assert document_of(text).tables[0].columns == ("item",)


def test_key_value_lines_are_fields_and_only_whole_numbers_become_numbers() -> None:
    text = "size: 120\n**Owner:** ann\n- price: 1,200\n* share: 5%\nzip: 00501\nsite: https://example.com/a"
    assert fields(text) == {
        ("size",): 120,
        ("Owner",): "ann",
        ("price",): "1,200",
        ("share",): "5%",
        ("zip",): "00501",
        ("site",): "https://example.com/a",
    }


def test_repeated_keys_are_records_of_a_table() -> None:
    text = "Commit history:\nCommit: a1\nAuthor: ann\n\nCommit: b2\nAuthor: bob\n"
    assert document_of(text).table(("Commit history",)).rows == (
        {"Commit": "a1", "Author": "ann"},
        {"Commit": "b2", "Author": "bob"},
    )


def test_a_folder_listing_has_kinds_and_items() -> None:
    assert rows("[FILE] a.txt\n[DIR] src") == [
        {"kind": "FILE", "item": "a.txt"},
        {"kind": "DIR", "item": "src"},
    ]


def test_a_list_is_named_by_its_heading() -> None:
    document = document_of("Users:\n1. ann\n2. bob\n\n## Groups\n- staff")
    assert [row["item"] for row in document.table(("Users",)).rows] == ["ann", "bob"]
    assert [row["item"] for row in document.table(("Groups",)).rows] == ["staff"]


def test_an_item_that_looks_like_a_field_is_still_counted_as_an_item() -> None:
    document = document_of("- Buy milk\n- Note: call Bob\n  - at noon\n- Walk")
    assert [row["item"] for row in document.table(("items",)).rows] == ["Buy milk", "Note: call Bob", "Walk"]
    assert document.fields == ()


def test_short_lines_below_a_heading_are_a_list() -> None:
    document = document_of("Allowed directories:\n/data\n/more")
    assert document.table(("Allowed directories",)).rows == ({"item": "/data"}, {"item": "/more"})


def test_other_text_is_a_table_of_its_lines() -> None:
    assert document_of("/data/a.txt\n/data/b.txt").table(("lines",)).rows == (
        {"item": "/data/a.txt"},
        {"item": "/data/b.txt"},
    )


# --- what is missing ----------------------------------------------------------------------------------------


def test_a_cut_list_keeps_its_complete_records_and_says_that_it_is_cut() -> None:
    whole = json.dumps([{"id": number, "name": "x" * 20} for number in range(300)])
    document = document_of(cut(whole, 500))
    assert document.is_cut
    [table] = document.tables
    assert [row["id"] for row in table.rows] == list(range(len(table.rows)))
    assert len(table.rows) > 10


def test_a_cut_text_loses_its_incomplete_last_line() -> None:
    document = document_of(cut("\n".join(f"entry number {number}" for number in range(2_000)), 200))
    assert document.is_cut
    assert all(str(row["item"]).startswith("entry number ") for row in document.tables[0].rows)


def test_a_table_that_loses_rows_counts_as_cut() -> None:
    document = document_of(json.dumps(list(range(limits.MAX_ROWS + 1))))
    assert document.is_cut
    assert len(document.tables[0].rows) == limits.MAX_ROWS
    assert not document_of(json.dumps(list(range(limits.MAX_ROWS)))).is_cut


def within_bounds(document: Document) -> bool:
    return (
        len(document.fields) <= limits.MAX_FIELDS
        and len(document.tables) <= limits.MAX_TABLES
        and all(len(field.path) <= limits.MAX_DEPTH for field in document.fields)
        and all(len(table.rows) <= limits.MAX_ROWS for table in document.tables)
        and all(set(row) <= set(table.columns) for table in document.tables for row in table.rows)
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "(" * 20_000 + "'",
        json.dumps({f"key{number}": number for number in range(5_000)}),
        json.dumps([{f"c{number}": number for number in range(500)}] * 50),
        json.dumps({"a\nb": 1, "k" * 5_000: 2, "": 3}),
        "1" * 50_000,
        "[" + "1" * 5_000 + "]",
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 20_000,
        "a: b\n" * 30_000,
        "- " * 30_000,
        ": " * 30_000,
        '"' * 64_000,
        "x" * 3_000_000,
        "\x00\ud800\n\u202e",
    ],
)
def test_hostile_answers_stay_within_bounds(text: str) -> None:
    assert within_bounds(document_of(text))
    says_error(text)


def test_no_random_text_raises_or_exceeds_the_bounds() -> None:
    chance = Random(7)
    pieces = [
        *string.printable,
        '{"a":',
        "[",
        "]",
        "}",
        '"',
        ": ",
        "| a |\n",
        "|---|\n",
        "- ",
        "1. ",
        "\n\n",
        "\\u",
    ]
    pieces += [
        "[FILE] ",
        "null",
        "NaN",
        "é",
        "\ud800",
        "…",
        "## ",
        "**",
        "e: 1\n",
        "a,b\n",
        "[... 5 of 9 characters cut ...]",
    ]
    for _ in range(1_500):
        text = "".join(pieces[int(chance.random() * len(pieces))] for _ in range(int(chance.random() * 80)))
        assert within_bounds(document_of(text))
        says_error(text)


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such table: users",
        "ValueError: bad input",
        "Failed to fetch https://example.com",
        "❌ Error executing query",
        "User 17 not found",
        "Invalid timezone: Mars/Base",
        '{"error": "rate limit"}',
        '{"error": {"code": 3}, "data": null}',
        "Access denied - path outside allowed directories",
        "404 Not Found",
        'Database error: near "x": syntax error',
        "/data/x: Error - ENOENT: no such file or directory",
    ],
)
def test_an_answer_that_reports_a_failure_is_an_error(text: str) -> None:
    assert says_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024-01-01 ERROR disk full\n2024-01-02 INFO ok",
        "Errors in the last hour: 3",
        '{"error": null, "data": 3}',
        '{"error": "", "data": 3}',
        '{"errors": []}',
        "error_rate: 0.02\nlatency: 12",
        "Lost and found: 3 items",
        "Error handling in Go\n" + "A long article about errors. " * 40,
        "42",
    ],
)
def test_an_honest_document_that_mentions_errors_is_none(text: str) -> None:
    assert not says_error(text)


def test_a_table_without_column_names_is_read_as_fields() -> None:
    table = "|  |  |\n| --- | --- |\n| Price | 24.75 EUR |\n| In stock | 31 |"
    page = f"Contents of the page:\n{table}\n\nDelivery takes three days."
    fields = {one.name: one.value for one in document_of(page).fields}
    assert fields["Price"] == "24.75 EUR"
    assert fields["In stock"] == 31


def test_the_letters_of_a_price_bar_have_names() -> None:
    found = document_of('{"results": [{"o": 1.5, "h": 2.5, "l": 1.0, "c": 2.0, "T": "ACME"}]}')
    assert found.tables[0].columns == ("opening price", "highest price", "lowest price", "closing price", "T")
    assert document_of('{"c": 2.0, "o": 1.5}').fields[0].name == "c"
