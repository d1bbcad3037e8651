"""Drawn inputs: questions about databases, conversions and calculations, without the statement in them."""

import asyncio
import random
import sqlite3
from dataclasses import replace

import pytest

from tests.explore_first.exploring import explored
from tests.explore_first.sample_answers import TEXT, tool
from turnwise.explore.exploration import Exploration
from turnwise.explore.first.computing.expressions import EXPRESSIONS, Numbers
from turnwise.explore.first.computing.time_zones import time_converter_of
from turnwise.explore.first.computing.units import unit_phrase
from turnwise.explore.first.sql.changes import SqlChange, sql_changes
from turnwise.explore.first.sql.question import leading, only
from turnwise.explore.first.sql.result_rows import rows_in
from turnwise.explore.first.sql.schema import Column, Database, Table, identifier, literal
from turnwise.explore.first.sql.table_questions import table_questions


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    return asyncio.run(explored(tmp_path_factory.mktemp("explored"), "computing", num_tasks=60))


@pytest.mark.parametrize(
    "text", ["[(80, 'a')]", '[[80, "a"]]', '[{"n": 80, "x": "a"}]', '{"columns": ["n"], "rows": [[80, "a"]]}']
)
def test_rows_are_read_however_a_server_prints_them(text: str) -> None:
    assert rows_in(text) == [(80, "a")]


def test_dates_and_decimals_of_python_rows_are_plain_values() -> None:
    assert rows_in("[(datetime.date(2024, 5, 3), Decimal('12.50'), None)]") == [("2024-05-03", 12.5, None)]


def test_prose_has_no_rows() -> None:
    assert rows_in("Database error: no such column") == []


def test_names_and_values_cannot_break_out_of_a_statement() -> None:
    assert identifier("books") == "books"
    assert identifier("order") == '"order"'
    assert identifier('a"b') == '"a""b"'
    assert literal("O'Hara") == "'O''Hara'"
    with pytest.raises(ValueError, match="plain text"):
        literal("a\\")


def test_an_order_by_chance_has_no_answer() -> None:
    assert leading(0)([("a", 3), ("b", 2)]) == "a"
    with pytest.raises(ValueError, match="clear order"):
        leading(0)([("a", 3), ("b", 3)])
    with pytest.raises(ValueError, match="instead of one value"):
        only([(1,), (2,)])


ROWS = [(n, f"T'{n}", "crime" if n % 2 else "poetry", n * 1.5, f"2024-0{n}-01") for n in range(1, 7)]
BOOKS = Table(
    "books",
    len(ROWS),
    tuple(
        Column(name, len(ROWS), len(set(values)), values)
        for name, values in zip(
            ("order", "title", "genre", "price", "sold_on"), zip(*ROWS, strict=True), strict=True
        )
    ),
)


def books() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE books ("order" INTEGER, title TEXT, genre TEXT, price REAL, sold_on TEXT)')
    database.executemany("INSERT INTO books VALUES (?, ?, ?, ?, ?)", ROWS)
    return database


def test_every_statement_about_a_table_runs_and_no_question_shows_it() -> None:
    database = books()
    questions = list(table_questions(BOOKS, random.Random(0)))
    assert len({question.shape for question in questions}) >= 7
    for question in questions:
        database.execute(question.statement).fetchall()
        assert "SELECT" not in question.noun
        assert "_" not in question.noun


def holds(change: SqlChange, *statements: str) -> bool:
    """Return whether the probes of a change hold in a new database after these statements."""
    database = books()
    for statement in statements:
        database.execute(statement)
    answers = [str(database.execute(probe.arguments["sql"]).fetchall()) for probe in change.probes]
    pairs = zip(change.probes, answers, strict=True)
    return all(probe.accepts(answer, is_error=False) for probe, answer in pairs)


def test_a_change_of_rows_is_shown_only_if_the_other_rows_stay_as_they_were() -> None:
    query, write = tool("query", sql=TEXT), tool("write", sql=TEXT)
    narrow = replace(BOOKS, columns=BOOKS.columns[1:3])  # a new row needs no value that is unlike all others
    database = Database(query, "sql", (BOOKS, narrow), (), None, (), writer=(write, "sql"))
    changes = list(sql_changes(database, seed=0))
    assert {change.shape for change in changes} == {"sql_update", "sql_delete", "sql_insert"}
    num_new = 0
    for change in changes:
        if holds(change):  # such a draft is rejected: there is nothing to do
            continue
        num_new += 1
        assert holds(change, change.statement), change.statement
        sloppy = change.statement.partition(" WHERE ")[0]
        more = sloppy if sloppy != change.statement else "DELETE FROM books WHERE price > 8"
        assert not holds(change, change.statement, more), change.statement
    assert num_new > len(changes) / 2


def test_units_follow_a_number_as_people_write_them() -> None:
    assert unit_phrase("square foot") == "square feet"
    assert unit_phrase("kilogram force per square centimeter") == "kilograms force per square centimeter"
    assert unit_phrase("gallon (US)") == "gallons (US)"
    assert unit_phrase("celsius") == "degrees Celsius"
    assert unit_phrase("USD") == "USD"
    assert unit_phrase("speed of light") == "“speed of light”"


def test_formulas_have_the_value_of_their_words() -> None:
    draw = Numbers(random.Random(3))
    for drawn in EXPRESSIONS.values():
        expression = drawn(draw)
        assert expression.value > 0
        assert expression.words or expression.asked.endswith("?")


def test_databases_converters_and_calculators_give_tasks_that_need_the_tool(found: Exploration) -> None:
    shapes = {task.family for task in found.tasks}
    assert {"sql_look_up", "sql_join_count", "convert", "calculate_product", "convert_time"} <= shapes
    for task in found.tasks:
        question = task.prompt[0].content
        assert "SELECT" not in question
        assert task.truth.required_tools


def test_a_calculator_without_roots_gets_none(found: Exploration) -> None:
    assert "calculate_root" not in {task.family for task in found.tasks}


def test_drawn_inputs_are_in_all_splits(found: Exploration) -> None:
    assert {
        task.split for task in found.tasks if task.family.startswith(("calculate", "convert", "sql"))
    } == {
        "train",
        "validation",
        "test",
    }


def test_a_tool_that_needs_a_time_and_two_zones_converts_times() -> None:
    found = time_converter_of(tool("convert", source_timezone=TEXT, time=TEXT, target_timezone=TEXT))
    assert found is not None
    assert (found.time, found.source, found.target) == ("time", "source_timezone", "target_timezone")
    assert time_converter_of(tool("remind", time=TEXT, timezone=TEXT)) is None
