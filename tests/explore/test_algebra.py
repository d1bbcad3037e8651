"""Queries over one small list, whose answers can be worked out by hand."""

import sqlite3

import pytest

from turnwise.explore import algebra
from turnwise.explore.algebra.columns import roles_of
from turnwise.explore.algebra.query import Query
from turnwise.explore.algebra.sql_text import SqlTable
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Call, Column, Relation

ROWS = (
    ("INV-1", "Keller", 120, 40.5, "open", "2025-03-01"),
    ("INV-2", "Adler", 80, 12.0, "paid", "2025-01-15"),
    ("INV-3", "Keller", 300, 99.9, "open", "2025-02-20"),
    ("INV-4", "Moser", 45, 7.25, "paid", "2025-04-02"),
    ("INV-5", "Keller", 60, 18.0, "open", "2024-12-31"),
    ("INV-6", "Adler", 510, 260.0, "overdue", "2025-03-09"),
)
COLUMNS = (
    Column("number", "text", is_key=True),
    Column("customer", "text", is_key=False),
    Column("weight", "integer", is_key=True),
    Column("amount", "number", is_key=True),
    Column("status", "text", is_key=False),
    Column("due", "date", is_key=True),
)
INVOICES = Relation(Call("s", "list_invoices", {}), (), "invoice", COLUMNS, ROWS, is_list=True)
KNOWN = {
    "the number of invoices": 6,
    "the number of invoices whose status is “open”": 3,
    "the number of invoices whose status is “paid” and customer is “Adler”": 1,
    "the customer of the invoice whose number is “INV-6”": "Adler",
    "the total weight of the invoices": 1115,
    "the total amount of the invoices whose status is “open”": 158.4,
    "the average weight of the invoices whose status is “paid”": 62.5,
    "the highest amount of the invoices whose status is “open”": 99.9,
    "the number of the invoice with the latest due date": "INV-4",
    "the number of the invoice with the lowest weight": "INV-4",
    "the most common customer of the invoices": "Keller",
    "the customer whose invoices have the highest total amount": "Adler",
}


def drafted() -> dict[str, Query]:
    roles = roles_of(INVOICES)
    things = Things("invoice")
    return {algebra.phrase(one, things): one for one in algebra.drafts(INVOICES, roles, is_complete=True)}


@pytest.mark.parametrize("phrase", [phrase for phrase in KNOWN if "Adler”" not in phrase])
def test_the_answer_is_the_one_worked_out_by_hand(phrase: str) -> None:
    assert algebra.answer(drafted()[phrase], [INVOICES]) == KNOWN[phrase]


def test_sql_gives_the_same_answers() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE invoices (number, customer, weight INTEGER, amount REAL, status, due)")
    database.executemany("INSERT INTO invoices VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    table = SqlTable("invoices", {column.name: column.name for column in COLUMNS})
    queries = drafted().values()
    assert len(queries) > 40
    for query in queries:
        [[found]] = database.execute(algebra.sql(query, table)).fetchall()
        assert found == pytest.approx(algebra.answer(query, [INVOICES])), query


def test_a_list_that_may_be_incomplete_is_not_counted_or_ordered() -> None:
    found = algebra.drafts(INVOICES, roles_of(INVOICES), is_complete=False)
    assert {query.operation for query in found} == {"look_up"}


def test_a_tie_is_no_extreme() -> None:
    tied = Relation(
        INVOICES.call, (), "invoice", COLUMNS, (*ROWS, ("INV-7", "A", 510, 260.0, "paid", "2024-12-31")), True
    )
    found = algebra.drafts(tied, roles_of(tied), is_complete=True)
    assert not [
        one
        for one in found
        if one.operation == "extreme" and one.function == "highest" and one.by == "amount" and not one.where
    ]


def test_ids_and_codes_are_neither_measured_nor_asked_for() -> None:
    columns = (
        Column("id", "integer", True),
        Column("priority", "integer", False),
        Column("name", "text", True),
    )
    rows = ((1001, 1, "Ash"), (1044, 2, "Birch"), (1100, 3, "Cedar"), (1102, 1, "Dogwood"), (1250, 2, "Elm"))
    trees = Relation(INVOICES.call, (), "tree", columns, rows, is_list=True)
    roles = roles_of(trees)
    assert roles.measures == ()
    assert "id" not in roles.asked
