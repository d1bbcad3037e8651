"""Questions about one table: counts, look-ups, extremes, averages, groups."""

import random
from collections.abc import Iterator, Sequence

from turnwise.explore.first.query import Form
from turnwise.explore.first.sql.question import (
    Condition,
    SqlQuestion,
    compares,
    equals,
    form_of_column,
    leading,
    of_row,
    only,
    superlative,
    the_row,
)
from turnwise.explore.first.sql.result_rows import Cell
from turnwise.explore.first.sql.schema import Column, Table
from turnwise.explore.first.wording.names import fits_in_sentence, plural

MAX_LABELS = 24
"""Rows of one table that are asked about."""
_SHARES = (0.25, 0.5, 0.75)
"""Places among a column's sorted values where the limits of conditions are taken from."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def table_questions(table: Table, chance: random.Random) -> Iterator[SqlQuestion]:
    """Yield all questions about a table."""
    yield _count(table)
    yield from _counts_where(table, chance)
    yield from _look_ups(table, chance)
    yield from _extremes(table, chance)
    yield from _aggregates(table, chance)
    yield from _distinct(table)
    yield from _groups(table)


def _count(table: Table) -> SqlQuestion:
    return SqlQuestion(
        "sql_count",
        f"SELECT COUNT(*) AS num_rows FROM {table.sql}",  # noqa: S608  (names are quoted)
        f"the number of {table.nouns}",
        Form.NUMBER,
        (table,),
        only,
        asked=f"How many {table.nouns} are there?",
    )


def _counts_where(table: Table, chance: random.Random) -> Iterator[SqlQuestion]:
    categories = category_conditions(table)
    limits = limit_conditions(table)
    pairs = [(one, other) for one in categories for other in limits]
    chance.shuffle(pairs)
    single = [(condition,) for condition in (*categories, *limits, *_periods(table))]
    for conditions in (*single, *pairs[:MAX_LABELS]):
        words = " and ".join(one.clause if len(conditions) > 1 else one.words for one in conditions)
        where = " AND ".join(condition.sql for condition in conditions)
        yield SqlQuestion(
            "sql_count_where" if len(conditions) == 1 else "sql_count_where_both",
            f"SELECT COUNT(*) AS num_rows FROM {table.sql} WHERE {where}",  # noqa: S608
            f"the number of {table.nouns} {words}",
            Form.NUMBER,
            (table,),
            only,
            entities=(conditions[0].words,),
            asked=f"How many {table.nouns} are there {words}?",
        )


def _look_ups(table: Table, chance: random.Random) -> Iterator[SqlQuestion]:
    label = table.label()
    if label is None:
        return
    for value in label_values(label, chance):
        for column in asked_columns(table, label):
            yield SqlQuestion(
                "sql_look_up",
                f"SELECT {column.sql} FROM {table.sql} WHERE {equals(label, value).sql}",  # noqa: S608
                f"the {column.noun} of {the_row(table, label, value)}",
                form_of_column(column),
                (table,),
                only,
                entities=(str(value),),
            )


def _extremes(table: Table, chance: random.Random) -> Iterator[SqlQuestion]:
    label = table.label()
    measures = [one for one in table.columns if (one.is_quantity or one.is_date) and one.is_sayable]
    categories = category_conditions(table)
    for measure in measures:
        answers = [label] if label is not None and label is not measure else []
        answers += [one for one in table.columns if one.is_category and one.is_sayable]
        for answer in answers:
            chance.shuffle(categories)
            conditions = [None, *(one for one in categories[:4] if answer is label)]
            for condition in conditions:
                for is_highest in (True, False):
                    yield _extreme(table, answer, measure, condition, is_highest=is_highest)
        if label is not None and label is not measure and not measure.is_date:
            yield _second(table, label, measure)


def _extreme(
    table: Table, answer: Column, measure: Column, condition: Condition | None, *, is_highest: bool
) -> SqlQuestion:
    where = f"WHERE {condition.sql} " if condition else ""
    among = f" among the {table.nouns} {condition.words}" if condition else ""
    return SqlQuestion(
        "sql_extreme_where" if condition else "sql_extreme",
        f"SELECT {answer.sql}, {measure.sql} FROM {table.sql} {where}"  # noqa: S608
        f"ORDER BY {measure.sql} {'DESC' if is_highest else 'ASC'} LIMIT 2",
        f"the {of_row(answer, table)} with {superlative(measure, is_highest=is_highest)}{among}",
        form_of_column(answer),
        (table,),
        leading(0),
        entities=(condition.words,) if condition else (),
    )


def _second(table: Table, answer: Column, measure: Column) -> SqlQuestion:
    best = superlative(measure, is_highest=True).removeprefix("the ")
    return SqlQuestion(
        "sql_extreme",
        f"SELECT {answer.sql}, {measure.sql} FROM {table.sql} ORDER BY {measure.sql} DESC LIMIT 3",  # noqa: S608
        f"the {of_row(answer, table)} with the second {best}",
        form_of_column(answer),
        (table,),
        leading(1),
    )


def _aggregates(table: Table, chance: random.Random) -> Iterator[SqlQuestion]:
    conditions = [*category_conditions(table), *limit_conditions(table)]
    for column in table.columns:
        if not (column.is_quantity and column.is_sayable):
            continue
        chosen: list[Condition | None] = [None, *conditions]
        for condition in chosen:
            is_own = condition is not None and condition.sql.startswith(f"{column.sql} ")
            if not is_own:
                yield from _aggregates_of(table, column, condition)


def _aggregates_of(table: Table, column: Column, condition: Condition | None) -> Iterator[SqlQuestion]:
    where = f" WHERE {condition.sql}" if condition else ""
    whose = f"the {table.nouns} {condition.words}" if condition else f"all {table.nouns}"
    computed = Form.NUMBER if column.is_whole else Form.ROUNDED
    functions = [("MAX", "highest", Form.NUMBER), ("MIN", "lowest", Form.NUMBER)]
    if not column.is_year:
        functions.append(("AVG", "average", Form.ROUNDED))
    if column.can_be_added:
        functions.append(("SUM", "total", computed))
    for function, word, form in functions:
        yield SqlQuestion(
            "sql_aggregate_where" if condition else "sql_aggregate",
            f"SELECT {function}({column.sql}) AS result FROM {table.sql}{where}",  # noqa: S608
            f"the {word} {column.noun} of {whose}",
            form,
            (table,),
            only,
            entities=(condition.words,) if condition else (),
        )


def _distinct(table: Table) -> Iterator[SqlQuestion]:
    for column in table.columns:
        is_repeated = column.is_text and 2 < column.num_different < column.num_values
        if is_repeated and column.is_sayable and not column.is_identifier:
            yield SqlQuestion(
                "sql_count",
                f"SELECT COUNT(DISTINCT {column.sql}) AS num_different FROM {table.sql}",  # noqa: S608
                f"the number of different {plural(column.noun)} among the {table.nouns}",
                Form.NUMBER,
                (table,),
                only,
                asked=f"How many different {plural(column.noun)} are there among the {table.nouns}?",
            )


def _groups(table: Table) -> Iterator[SqlQuestion]:
    for group in table.columns:
        if not (group.is_category and group.is_sayable):
            continue
        measures = [("COUNT(*)", f"most {table.nouns}", f"fewest {table.nouns}")]
        for column in table.columns:
            if column.is_quantity and column.is_sayable and not column.is_year:
                average, total = f"average {column.noun}", f"total {column.noun}"
                measures.append((f"AVG({column.sql})", f"highest {average}", f"lowest {average}"))
                if column.can_be_added:
                    measures.append((f"SUM({column.sql})", f"highest {total}", f"lowest {total}"))
        for measure, most, least in measures:
            whose = "" if measure == "COUNT(*)" else f" of its {table.nouns}"
            for words, order in ((most, "DESC"), (least, "ASC")):
                yield SqlQuestion(
                    "sql_group",
                    f"SELECT {group.sql}, {measure} AS measure FROM {table.sql} "  # noqa: S608
                    f"GROUP BY {group.sql} ORDER BY measure {order} LIMIT 2",
                    f"the {group.noun} with the {words}{whose}",
                    Form.TEXT,
                    (table,),
                    leading(0),
                    asked=f"Which {group.noun} has the {words}{whose}?" if not whose else "",
                )


def category_conditions(table: Table) -> list[Condition]:
    """Return a condition for every value of a category in the sample rows."""
    found = []
    for column in table.columns:
        if column.is_category and column.is_sayable:
            values = sorted({str(value) for value in column.known if is_sayable_value(value)})
            found += [equals(column, value) for value in values]
    return found


def limit_conditions(table: Table) -> list[Condition]:
    """Return conditions with limits among the sample values of quantities and dates."""
    found = []
    for column in table.columns:
        if not column.is_sayable or not (column.is_quantity or column.is_date):
            continue
        for value in dict.fromkeys(_limits(column)):
            found += [compares(column, value, is_above=is_above) for is_above in (True, False)]
    return found


def _limits(column: Column) -> Iterator[Cell]:
    places = [int(share * (len(column.known) - 1)) for share in _SHARES]
    if column.is_date:
        dates = sorted(map(str, column.known))
        yield from (dates[place] for place in places)
        return
    numbers = sorted(value for value in column.known if isinstance(value, int | float))
    yield from (_rounded(numbers[place]) for place in places if abs(numbers[place]) >= 1)


def _rounded(value: float) -> int:
    """Return the number as people say a limit: 15 for 14.97, 270 for 271."""
    whole = round(value)
    is_exact = abs(whole) < 100 or 1500 <= whole <= 2100
    return whole if is_exact else round(whole, 2 - len(str(abs(whole))))


def _periods(table: Table) -> Iterator[Condition]:
    """Yield conditions that a date is in a month or a year of the sample rows."""
    for column in table.columns:
        if not (column.is_date and column.is_sayable):
            continue
        for year in sorted({int(str(value)[:4]) for value in column.known}):
            yield _between(column, f"{year}-01-01", f"{year + 1}-01-01", said=str(year))
        for month in sorted({str(value)[:7] for value in column.known}):
            year, number = int(month[:4]), int(month[5:])
            if 1 <= number <= len(_MONTHS):
                after = f"{year + number // 12}-{number % 12 + 1:02}-01"
                yield _between(column, f"{month}-01", after, said=f"{_MONTHS[number - 1]} {year}")


def _between(column: Column, start: str, end: str, *, said: str) -> Condition:
    span = f"{column.sql} >= '{start}' AND {column.sql} < '{end}'"
    return Condition(span, f"whose {column.noun} is in {said}")


def label_values(label: Column, chance: random.Random) -> Sequence[Cell]:
    """Return different values of a label, in an order by chance."""
    values = [value for value in dict.fromkeys(label.known) if is_sayable_value(value)]
    chance.shuffle(values)
    return values[:MAX_LABELS]


def asked_columns(table: Table, label: Column) -> list[Column]:
    """Return the columns that are worth asking for, if the row is known by its label."""
    return [
        column
        for column in table.columns
        if column is not label
        and column.is_sayable
        and not column.is_identifier
        and (column.num_different > 2 or column.is_text or column.is_date)
    ]


def is_sayable_value(value: Cell) -> bool:
    """Return whether a value can be quoted in a question and in a statement."""
    if isinstance(value, str):
        is_trimmed = value == value.strip() != ""
        return is_trimmed and fits_in_sentence(value) and "\\" not in value and value.isprintable()
    return value is not None and not isinstance(value, bool)
