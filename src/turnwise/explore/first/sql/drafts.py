"""Drafts of tasks about a database, from its questions and its changes."""

import random
from collections.abc import Callable, Iterator, Sequence

from turnwise.explore.first.answers import answer_of_value
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.query import Form
from turnwise.explore.first.sql.changes import SqlChange, sql_changes
from turnwise.explore.first.sql.join_questions import join_questions
from turnwise.explore.first.sql.question import SqlQuestion
from turnwise.explore.first.sql.result_rows import Cell, rows_in
from turnwise.explore.first.sql.schema import Database, SchemaCall
from turnwise.explore.first.sql.table_questions import table_questions
from turnwise.explore.first.wording.changes import DONE
from turnwise.explore.first.wording.names import is_plain_name
from turnwise.explore.first.wording.questions import with_form
from turnwise.tasks.proof.answers import is_clear
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.types import Answer, Difficulty, ExpectedWrite, Tool

_MAX_QUESTIONS = 3_000
_SCHEMA_SHARE = 0.3
"""Share of the questions that ask for a look at the tables first."""


def sql_drafts(database: Database, seed: int) -> list[Draft]:
    """Return drafts about a database, the same ones for the same seed."""
    drafts: list[Draft] = []
    for question in _questions(database, seed):
        if len(drafts) >= _MAX_QUESTIONS:
            break
        chance = random.Random(f"{seed}/{question.statement}")  # noqa: S311  # tasks, not secrets
        schema = _schema_calls(database, question) if chance.random() < _SCHEMA_SHARE else ()
        drafts.append(_draft(database, question, schema))
    drafts += [_change_draft(change) for change in sql_changes(database, seed)]
    return drafts


def _questions(database: Database, seed: int) -> Iterator[SqlQuestion]:
    chance = random.Random(f"{seed}/sql/{database.tool.name}")  # noqa: S311
    for table in database.tables:
        if is_plain_name(table.name):
            yield from table_questions(table, chance)
    for reference in database.references:
        if is_plain_name(reference.child.name) and is_plain_name(reference.parent.name):
            yield from join_questions(reference, chance)


def _schema_calls(database: Database, question: SqlQuestion) -> tuple[tuple[SchemaCall, ...], ...]:
    """Return calls that show the tables and then the columns, one turn each; none if one is unknown."""
    described = [database.described(table) for table in question.tables]
    calls = tuple(call for call in described if call is not None)
    if len(calls) < len(described):
        return ()
    is_hard = question.difficulty is not Difficulty.EASY
    return ((database.listing,), calls) if database.listing is not None and is_hard else (calls,)


def _draft(database: Database, question: SqlQuestion, schema: Sequence[tuple[SchemaCall, ...]]) -> Draft:
    query = call(database.tool.name, **{database.parameter: question.statement})
    turns = [*(tuple(_step(one) for one in turn) for turn in schema), (query,)]
    tools = [*(one.tool for turn in schema for one in turn), database.tool]
    difficulty = question.difficulty
    if schema and difficulty is Difficulty.EASY:
        difficulty = Difficulty.MEDIUM
    elif schema:
        difficulty = Difficulty.HARD
    return Draft(
        shape=question.shape,
        case=Case({}, "", tuple(turns), _concluding(question), parse=rows_in),
        questions=_wordings(question, database.tool, first=_first(schema)),
        tools=tuple(tool.name for tool in tools),
        servers=(database.tool.server,),
        entities=question.entities,
        difficulty=difficulty,
        key=f"{question.shape} {question.statement}",
    )


def _step(schema: SchemaCall) -> PlanStep:
    return call(schema.tool.name, **dict(schema.arguments))


def _concluding(question: SqlQuestion) -> Callable[[Results], Conclusion]:
    def conclude(results: Results) -> Conclusion:
        value = _fit(question.read(results[-1]), question.form)
        return Conclusion(*answer_of_value(value, question.form))

    return conclude


def _fit(value: Cell, form: Form) -> str | float:
    """Return the value in its form; ValueError if it has none, or rounding would leave too little of it."""
    if value is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is no answer")
    if form is not Form.ROUNDED:
        return value
    number = float(value)
    if abs(number) < 1 or not is_clear(number):
        raise ValueError(f"{number} cannot be rounded to two decimals without doubt")
    return round(number, 2)


def _first(schema: Sequence[tuple[SchemaCall, ...]]) -> str:
    """Return the request to look at the tables first."""
    if not schema:
        return ""
    if len(schema) > 1:
        return " Look at the list of tables and at the columns you need before you query them."
    if len(schema[0]) > 1:
        return " Look up the columns of the tables before you query them."
    return " Look up the columns of the table before you query it."


def _wordings(question: SqlQuestion, tool: Tool, *, first: str) -> tuple[str, ...]:
    """Return wordings, the first two with the tool's name."""
    noun = question.noun
    asked = question.asked or f"What is {noun}?"
    sentences = [
        f"{asked} Use `{tool.name}`.",
        f"Use `{tool.name}` to find out {noun}.",
        asked,
        f"According to the database, {asked[0].lower()}{asked[1:]}",
        f"I need to know {noun}.",
        f"Query the database to find out {noun}.",
        f"Could you look up {noun}?",
        f"Can you query the database and tell me {noun}?",
    ]
    return with_form([f"{sentence}{first}" for sentence in sentences], question.form)


def _change_draft(change: SqlChange) -> Draft:
    deed = change.deed
    sentences = [
        f"Use `{change.tool.name}` to {deed}.",
        f"With `{change.tool.name}`, {deed}.",
        f"{deed[0].upper()}{deed[1:]}.",
        f"Please {deed}.",
        f"I need you to {deed}.",
        f"Could you {deed} in the database?",
        f"I would like you to {deed}.",
        f"Can you {deed}?",
    ]
    made = call(change.tool.name, **{change.parameter: change.statement})
    once = ExpectedWrite(change.tool.name, {})
    done = Conclusion(Answer("Done."), "Done.", writes=(once,), probes=change.probes)
    return Draft(
        shape=change.shape,
        case=Case({}, "", ((made,),), lambda _: done),
        questions=tuple(f"{sentence} {DONE}" for sentence in sentences),
        tools=(change.tool.name,),
        servers=(change.tool.server,),
        entities=change.entities,
        difficulty=Difficulty.EASY,
        key=f"{change.shape} {change.statement}",
        changes_state=True,
    )
