"""Questions about two tables: what a row refers to, and what refers to it."""

import random
from collections.abc import Iterator

from turnwise.explore.first.query import Form
from turnwise.explore.first.sql.question import (
    SqlQuestion,
    equals,
    form_of_column,
    leading,
    of_row,
    only,
    the_row,
)
from turnwise.explore.first.sql.schema import Column, Reference
from turnwise.explore.first.sql.table_questions import asked_columns, is_sayable_value, label_values
from turnwise.types import Difficulty

_LEAST_CHILDREN = (1, 2, 3, 5)


def join_questions(reference: Reference, chance: random.Random) -> Iterator[SqlQuestion]:
    """Yield all questions along a reference."""
    yield from _parent_of(reference, chance)
    yield from _children_of(reference, chance)
    yield from _richest(reference)
    yield from _having(reference)
    yield from _children_where(reference)


def _joined(reference: Reference) -> str:
    return f"{reference.child.sql} JOIN {reference.parent.sql} ON {reference.condition}"


def _of(reference: Reference, column: Column, *, is_child: bool) -> str:
    return f"{(reference.child if is_child else reference.parent).sql}.{column.sql}"


def _parent_of(reference: Reference, chance: random.Random) -> Iterator[SqlQuestion]:
    """ "the country of the author of the book whose title is “Emma”" """
    label, parent_label = reference.child.label(), reference.parent.label()
    if label is None:
        return
    columns = asked_columns(reference.parent, reference.key)
    if parent_label is not None and parent_label not in columns and not parent_label.is_identifier:
        columns.append(parent_label)
    for value in label_values(label, chance):
        condition = equals(label, value, of=reference.child.sql)
        for column in columns:
            yield SqlQuestion(
                "sql_join_look_up",
                f"SELECT {_of(reference, column, is_child=False)} FROM {_joined(reference)} "  # noqa: S608
                f"WHERE {condition.sql}",
                f"the {column.noun} of the {reference.parent.noun} "
                f"of {the_row(reference.child, label, value)}",
                form_of_column(column),
                (reference.child, reference.parent),
                only,
                entities=(str(value),),
                difficulty=Difficulty.MEDIUM,
            )


def _children_of(reference: Reference, chance: random.Random) -> Iterator[SqlQuestion]:
    """ "the number of orders of the customer whose name is “Ann”", and averages and totals of them."""
    label = reference.parent.label()
    if label is None:
        return
    for value in label_values(label, chance):
        condition = equals(label, value, of=reference.parent.sql)
        owner = the_row(reference.parent, label, value)
        for measure, noun, form in _measures(reference):
            is_count = measure == "COUNT(*)"
            yield SqlQuestion(
                "sql_join_count" if is_count else "sql_join_aggregate",
                f"SELECT {measure} AS result FROM {_joined(reference)} WHERE {condition.sql}",  # noqa: S608
                f"{noun} of {owner}",
                form,
                (reference.child, reference.parent),
                only,
                entities=(str(value),),
                asked=f"How many {reference.child.nouns} does {owner} have?" if is_count else "",
                difficulty=Difficulty.MEDIUM,
            )


def _measures(reference: Reference) -> Iterator[tuple[str, str, Form]]:
    """Yield what is computed from the child rows: SQL, words, form."""
    child = reference.child
    yield "COUNT(*)", f"the number of {child.nouns}", Form.NUMBER
    for column in child.columns:
        if not (column.is_quantity and column.is_sayable) or column.is_year:
            continue
        sql = _of(reference, column, is_child=True)
        yield f"AVG({sql})", f"the average {column.noun} of the {child.nouns}", Form.ROUNDED
        yield f"MAX({sql})", f"the highest {column.noun} of the {child.nouns}", Form.NUMBER
        if column.can_be_added:
            form = Form.NUMBER if column.is_whole else Form.ROUNDED
            yield f"SUM({sql})", f"the total {column.noun} of the {child.nouns}", form


def _richest(reference: Reference) -> Iterator[SqlQuestion]:
    """ "the name of the author with the most books" """
    parent = reference.parent
    label = parent.label()
    if label is None or label.is_identifier:
        return
    answers = [label, *(one for one in parent.columns if one.is_category and one.is_sayable)]
    for measure, noun, _ in _measures(reference):
        if measure.startswith("MAX"):
            continue
        words = noun.removeprefix("the ")
        most = f"the most {reference.child.nouns}" if measure == "COUNT(*)" else f"the highest {words}"
        for answer in answers:
            key, shown = (_of(reference, column, is_child=False) for column in (reference.key, answer))
            groups = ", ".join(dict.fromkeys((key, shown)))
            yield SqlQuestion(
                "sql_join_group",
                f"SELECT {shown}, {measure} AS measure FROM {_joined(reference)} "  # noqa: S608
                f"GROUP BY {groups} ORDER BY measure DESC LIMIT 2",
                f"the {of_row(answer, parent)} with {most}",
                Form.TEXT,
                (reference.child, parent),
                leading(0),
                difficulty=Difficulty.HARD,
            )


def _having(reference: Reference) -> Iterator[SqlQuestion]:
    """ "the number of authors with more than 3 books" """
    child, column = reference.child, reference.column
    if column.num_values < child.num_rows:  # rows without a value would make a group
        return
    for least in _LEAST_CHILDREN:
        noun = child.noun if least == 1 else child.nouns
        yield SqlQuestion(
            "sql_having",
            f"SELECT COUNT(*) AS num_groups FROM (SELECT {column.sql} FROM {child.sql} "  # noqa: S608
            f"GROUP BY {column.sql} HAVING COUNT(*) > {least}) AS grouped",
            f"the number of {reference.parent.nouns} with more than {least} {noun}",
            Form.NUMBER,
            (child, reference.parent),
            only,
            asked=f"How many {reference.parent.nouns} have more than {least} {noun}?",
            difficulty=Difficulty.HARD,
        )


def _children_where(reference: Reference) -> Iterator[SqlQuestion]:
    """ "the number of books of authors whose country is “Norway”" """
    parent = reference.parent
    for column in parent.columns:
        if not (column.is_category and column.is_sayable):
            continue
        for value in sorted({str(one) for one in column.known if is_sayable_value(one)}):
            condition = equals(column, value, of=parent.sql)
            for measure, noun, form in _measures(reference):
                is_count = measure == "COUNT(*)"
                yield SqlQuestion(
                    "sql_join_where",
                    f"SELECT {measure} AS result FROM {_joined(reference)} WHERE {condition.sql}",  # noqa: S608
                    f"{noun} of {parent.nouns} {condition.words}",
                    form,
                    (reference.child, parent),
                    only,
                    entities=(condition.words,),
                    asked=f"How many {reference.child.nouns} do {parent.nouns} {condition.words} have?"
                    if is_count
                    else "",
                    difficulty=Difficulty.HARD,
                )
