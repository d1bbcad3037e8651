"""Answers that hold in every fresh session, without what is volatile, echoed or always the same."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Call, Path, Relation
from turnwise.explore.survey.drawing import format_of
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.explore.survey.refusals import leaves, without_echo
from turnwise.explore.survey.roles import Roles, prelude_of
from turnwise.explore.survey.sessions import Session, SessionLost, Sessions
from turnwise.explore.survey.snapshots import Volatile, is_present
from turnwise.explore.survey.walk import Trace

_LONG_AGO = (1_000, 1_035, 1_070, 1_400)
"""Days before and after the present one, in different months and years."""


async def read_after(sessions: Sessions, traces: Sequence[Trace], roles: Roles) -> list[Answer]:
    """Read what only earlier calls make readable: in a fresh session each, after its prelude."""
    found: list[Answer] = []
    for trace in traces:
        calls = [one.call for one in trace.successes if not one.is_empty]
        calls = sorted(
            (
                call
                for call in calls
                if (before := prelude_of(trace, call, roles)) and not _is_made(call, before, roles)
            ),
            key=lambda call: len(trace.preludes[call.key]),
        )
        if not calls or sessions.budget.is_spent:
            continue
        try:
            async with sessions.fresh() as session:
                for call in calls[:1]:
                    for needed in prelude_of(trace, call, roles):
                        await session.call(needed)
                    answer = await session.call(call)
                    found += [] if answer.is_error or is_cut(answer.text) else [answer]
        except SessionLost:
            continue
    return found


def _is_made(call: Call, before: Sequence[Call], roles: Roles) -> bool:
    """Return whether the calls before a call made what it asks about: no question could name that."""
    known = {
        (name, str(leaf))
        for answer in roles.answers.values()
        for name, value in answer.call.arguments.items()
        for leaf in leaves(value)
    }
    sent = {str(leaf) for one in before for leaf in leaves(one.arguments)}
    asked = {(name, str(leaf)) for name, value in call.arguments.items() for leaf in leaves(value)}
    return any(value in sent for name, value in asked - known)


async def of_today(session: Session, traces: Mapping[str, Trace], answers: Sequence[Answer]) -> set[str]:
    """Return the keys of calls that leave out a date for which the server takes the present one.

    With the present date the answer is the same, and with earlier ones and later ones it is not: without an
    end of a period, later ones give the same too.
    """
    now = datetime.datetime.now(datetime.UTC)
    found: set[str] = set()
    for name in sorted({answer.call.tool for answer in answers}):
        own = [answer for answer in answers if answer.call.tool == name]
        for one in parameters_of(traces[name].tool):
            left_out = [answer for answer in own if one.name not in answer.call.arguments]
            if one.is_required or not left_out or format_of(one) not in ("date", "date-time"):
                continue
            [first, *_] = left_out
            texts = []
            for days in (0, *_LONG_AGO, *(-days for days in _LONG_AGO)):
                written = _written(now - datetime.timedelta(days=days), one)
                call = replace(first.call, arguments={**first.call.arguments, one.name: written})
                texts.append(without_echo((await session.call(call)).text, {one.name: written}))
            past, future = set(texts[1 : 1 + len(_LONG_AGO)]), set(texts[1 + len(_LONG_AGO) :])
            if texts[0] == first.text and past != {first.text} and future != {first.text}:
                found |= {answer.call.key for answer in left_out}
    return found


def _written(day: datetime.datetime, parameter: Parameter) -> str:
    return str(day.date()) if format_of(parameter) == "date" else day.strftime("%Y-%m-%dT%H:%M:%SZ")


def clean_answers(answers: Sequence[Answer], volatile: Volatile) -> dict[str, list[Answer]]:
    """Return the answers by tool, without volatile columns, echoes of arguments and constant columns."""
    by_tool: dict[str, list[Answer]] = {}
    for answer in answers:
        by_tool.setdefault(answer.call.tool, []).append(answer)
    cleaned: dict[str, list[Answer]] = {}
    for tool, own in by_tool.items():
        constant = _constant_columns(own)
        for answer in own:
            kept = [_cleaned(relation, constant, volatile) for relation in answer.relations]
            relations = tuple(relation for relation in kept if relation is not None)
            if relations:
                cleaned.setdefault(tool, []).append(replace(answer, relations=relations))
    return cleaned


def _constant_columns(answers: Sequence[Answer]) -> set[tuple[Path, str]]:
    """Return the columns of single rows that say the same whatever the arguments are."""
    seen: dict[tuple[Path, str], set[str]] = {}
    num_calls: dict[tuple[Path, str], int] = {}
    for answer in answers:
        for relation in answer.relations:
            if not relation.is_list:
                for column in relation.columns:
                    key = (relation.path, column.name)
                    seen.setdefault(key, set()).add(repr(relation.values(column.name)))
                    num_calls[key] = num_calls.get(key, 0) + 1
    return {key for key, texts in seen.items() if len(texts) == 1 and num_calls[key] >= 3}


def _cleaned(relation: Relation, constant: set[tuple[Path, str]], volatile: Volatile) -> Relation | None:
    sent = {str(leaf).lower() for leaf in leaves(relation.call.arguments)}
    kept = []
    for place, column in enumerate(relation.columns):
        cells = {str(row[place]).lower() for row in relation.rows if row[place] is not None}
        is_echo = not relation.is_list and bool(cells) and cells <= sent
        is_envelope = not relation.is_list and (relation.path, column.name) in constant
        is_volatile = (relation.call.tool, relation.path, column.name) in volatile.columns
        is_volatile |= all(is_present(row[place]) for row in relation.rows if row[place] is not None)
        if cells and not is_echo and not is_envelope and not is_volatile:
            kept.append(place)
    if not kept:
        return None
    columns = tuple(relation.columns[place] for place in kept)
    rows = tuple(tuple(row[place] for place in kept) for row in relation.rows)
    return replace(relation, columns=columns, rows=rows)
