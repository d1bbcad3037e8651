"""Answers in the formats that servers use become the same rows."""

import pytest

from turnwise.explore.reading import read
from turnwise.explore.records import Call, Relation

CALL = Call("server", "list_tasks", {})

TASKS = {
    "json": '[{"id": 7, "name": "Buy milk", "due": "2024-01-01"},'
    ' {"id": 9, "name": "Sell car", "due": "2024-05-01"}]',
    "json in a sentence": 'Found 2 tasks:\n[{"id": 7, "name": "Buy milk", "due": "2024-01-01"},'
    ' {"id": 9, "name": "Sell car", "due": "2024-05-01"}]',
    "json lines": '{"id": 7, "name": "Buy milk", "due": "2024-01-01"}\n'
    '{"id": 9, "name": "Sell car", "due": "2024-05-01"}',
    "wrapped": '{"ok": true, "data": {"tasks": [{"id": 7, "name": "Buy milk", "due": "2024-01-01"},'
    ' {"id": 9, "name": "Sell car", "due": "2024-05-01"}]}}',
    "by key": '{"7": {"name": "Buy milk", "due": "2024-01-01"},'
    ' "9": {"name": "Sell car", "due": "2024-05-01"}}',
    "lists": '{"rows": [["id", "name", "due"], [7, "Buy milk", "2024-01-01"],'
    ' [9, "Sell car", "2024-05-01"]]}',
    "python": "[{'id': 7, 'name': 'Buy milk', 'due': '2024-01-01'},"
    " {'id': 9, 'name': 'Sell car', 'due': '2024-05-01'}]",
    "text in json": '{"result": "ID: 7\\nName: Buy milk\\nDue: 2024-01-01\\n\\n'
    'ID: 9\\nName: Sell car\\nDue: 2024-05-01"}',
    "csv": "id,name,due\n7,Buy milk,2024-01-01\n9,Sell car,2024-05-01",
    "markdown table": "Tasks\n\n| id | name | due |\n|---|---|---|\n| 7 | Buy milk | 2024-01-01 |\n"
    "| 9 | Sell car | 2024-05-01 |",
    "aligned": "ID   Name       Due\n"
    "---- ---------- ----------\n7    Buy milk   2024-01-01\n9    Sell car   2024-05-01",
    "headings": "# Tasks\n\n## Buy milk\n- ID: 7\n- Due: 2024-01-01\n\n"
    "## Sell car\n- ID: 9\n- Due: 2024-05-01",
    "numbered": "1. **Buy milk** (id: 7)\n   Due: 2024-01-01\n2. **Sell car** (id: 9)\n   Due: 2024-05-01",
    "one line each": "- 7: Buy milk (due 2024-01-01)\n- 9: Sell car (due 2024-05-01)",
    "columns without a header": ". 7   Buy milk   2024-01-01\n. 9   Sell car   2024-05-01",
    "yaml": "tasks:\n  - id: 7\n    name: Buy milk\n    due: 2024-01-01\n"
    "  - id: 9\n    name: Sell car\n    due: 2024-05-01",
}


def cells(relation: Relation) -> list[set[str]]:
    return [{str(cell) for cell in row if cell is not None} for row in relation.rows]


@pytest.mark.parametrize("text", TASKS.values(), ids=TASKS)
def test_every_format_of_a_list_gives_its_rows(text: str) -> None:
    wanted = [{"7", "Buy milk", "2024-01-01"}, {"9", "Sell car", "2024-05-01"}]
    lists = [relation for relation in read(CALL, text) if relation.is_list]
    assert any(
        all(
            {part.removeprefix("due ") for part in row} >= one
            for row, one in zip(cells(relation), wanted, strict=False)
        )
        for relation in lists
    ), lists


def test_columns_have_kinds_and_keys() -> None:
    [relation] = read(CALL, TASKS["json"])
    assert [(column.name, column.kind, column.is_key) for column in relation.columns] == [
        ("id", "integer", True),
        ("name", "text", True),
        ("due", "date", False),
    ]


def test_lists_inside_rows_keep_what_identifies_the_row() -> None:
    text = '{"projects": [{"name": "A", "members": ["Kim", "Lee"]}, {"name": "B", "members": ["Kim"]}]}'
    _, members = read(CALL, text)
    assert members.noun == "member"
    assert list(members.records()) == [
        {"project.name": "A", "member": "Kim"},
        {"project.name": "A", "member": "Lee"},
        {"project.name": "B", "member": "Kim"},
    ]


def test_a_list_below_a_title_is_named_for_it() -> None:
    [relation] = read(CALL, "Books:\n- Faust\n- Emma\n- Ulysses")
    assert (relation.noun, relation.values("book")) == ("book", ("Faust", "Emma", "Ulysses"))


def test_fields_of_one_thing_are_one_row() -> None:
    [relation] = read(CALL, "Name: Ann\nAge: 30\n**City:** Bonn")
    assert not relation.is_list
    assert list(relation.records()) == [{"Name": "Ann", "Age": 30, "City": "Bonn"}]


def test_a_text_after_a_blank_line_does_not_belong_to_the_field_above_it() -> None:
    text = "Author: Ilse Brandt\nDate:   Mon Jan 6 2025\n\n    Mend the harbour\n\n    and the mill\n"
    [letter, *_] = read(CALL, text)
    assert next(letter.records())["Date"] == "Mon Jan 6 2025"


def test_a_tag_before_names_is_a_column_whether_or_not_all_lines_have_the_same() -> None:
    mixed, same = "[DIR] people\n[FILE] a.md\n[FILE] b.md", "[FILE] a.md\n[FILE] b.md"
    for text in (mixed, same):
        [relation] = read(CALL, text)
        assert [column.name for column in relation.columns] == ["kind", "item"]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("The sum of 20 and 166 is 186.", {"sum": 186}),
        ("The number of days in month is 30.", {"number of days in month": 30}),
        (
            "The week of the year is 32, and the isoWeek of the year is 31.",
            {"week of the year": 32, "isoWeek of the year": 31},
        ),
        (
            "The timestamp of 2024-03-15 (parsed as UTC) is 1710460800000 ms.",
            {"timestamp in ms": 1710460800000},
        ),
    ],
)
def test_the_numbers_that_a_sentence_states_are_its_fields(text: str, fields: dict[str, int]) -> None:
    [relation] = read(CALL, text)
    assert list(relation.records()) == [fields]


def test_a_table_of_two_columns_without_names_holds_the_fields_of_one_thing() -> None:
    text = "Contents:\n|  |  |\n| --- | --- |\n| Price | 39.90 EUR |\n| In stock | 12 |\n\nDelivery is free."
    rows = [record for relation in read(CALL, text) for record in relation.records()]
    assert {"Price": "39.90 EUR", "In stock": 12} in rows
