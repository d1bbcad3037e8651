"""Programs that change something a reader shows: one change, several, or what was read elsewhere."""

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import Knowledge, entities_of
from turnwise.explore.programs.program import Program, Step, Taken, flat, put
from turnwise.explore.programs.reading_programs import Way, _things, entity_phrase, ways
from turnwise.explore.records import Call, Change, ColumnPlace
from turnwise.explore.wording import questions
from turnwise.explore.wording.call_phrase import change_order
from turnwise.types import StateProbe

_MOST_SETS = 20_000
_PER_SIZE = 48
"""Requests for two changes, and for three."""
_PER_CHANGE = 4
_MIN_CHARS = 3


def changes(known: Knowledge) -> Iterator[Draft]:
    """Yield requests for one change."""
    for change in known.survey.changes:
        program = Program("change", _steps(change), changes=(change,))
        yield _draft(known, program, [_order(known, change.call)], 0.0)


def severals(known: Knowledge) -> Iterator[Draft]:
    """Yield requests for two or three changes, by different tools before those to different things."""
    alone = [change for change in known.survey.changes if not change.prelude]
    for size in (2, 3):
        sets = list(itertools.islice(itertools.combinations(alone, size), _MOST_SETS))
        known.rng(f"several/{size}").shuffle(sets)
        sets.sort(key=lambda some: len({change.call.tool for change in some}), reverse=True)
        found = (some for some in sets if _are_apart(known, some))
        for some in itertools.islice(found, _PER_SIZE):
            steps = tuple(step for change in some for step in _steps(change))
            program = Program("several", steps, changes=tuple(map(_open, some)))
            yield _draft(known, program, [_order(known, change.call) for change in some], size - 1.0)


def _are_apart(known: Knowledge, changes: Sequence[Change]) -> bool:
    """Return whether no two changes name the same thing."""
    return not any(
        _values(one.call) & _values(other.call) - _options(known, one.call)
        for one, other in itertools.combinations(changes, 2)
    )


def _open(change: Change) -> Change:
    """Return a change whose whole answers are not known, since it is made with another one."""
    return replace(change, probes=tuple(replace(probe, equals="") for probe in change.probes))


def _values(call: Call) -> set[str]:
    return {str(value) for value in flat(call.arguments).values()}


def _options(known: Knowledge, call: Call) -> set[str]:
    """Return the values of a call that name nothing: they are not links."""
    return {str(value) for name, value in flat(call.arguments).items() if not known.links(call.tool, name)}


def _steps(change: Change) -> tuple[Step, ...]:
    return tuple(Step(call.server, call.tool, call.arguments) for call in (*change.prelude, change.call))


def _order(known: Knowledge, call: Call, phrases: dict[str, str] | None = None) -> str:
    facts = known.survey.tools[call.tool]
    arguments = {name: value for name, value in flat(call.arguments).items() if name not in (phrases or {})}
    said = known.said(call.tool, arguments, phrases or {}, "")
    is_new = not any(link.kind != "new" for name in arguments for link in known.links(call.tool, name))
    return change_order(facts.tool, said, is_new=is_new)


def _draft(known: Knowledge, program: Program, orders: list[str], worth: float) -> Draft:
    values = [value for step in program.steps for value in flat(step.arguments).values()]
    return Draft(program, questions.change(orders), entities_of(values), worth)


def transfers(known: Knowledge) -> Iterator[Draft]:
    """Yield requests to write what an answer elsewhere says."""
    for change in known.survey.changes:
        if change.prelude:
            continue
        texts = {
            name: value
            for name, value in flat(change.call.arguments).items()
            if isinstance(value, str) and len(value) >= _MIN_CHARS and not known.links(change.call.tool, name)
        }
        for name, value in list(texts.items())[:2]:
            if name in change.landed and _holds_texts(known, change.landed[name]):
                yield from itertools.islice(_transfers_into(known, change, name, value), _PER_CHANGE)


def _holds_texts(known: Knowledge, place: ColumnPlace) -> bool:
    """Return whether a column has words in which another answer may be written: no paths, no codes."""
    relation = known.pooled(place.tool, place.path)
    if relation is None or place.column not in (column.name for column in relation.columns):
        return False
    cells = [str(cell) for cell in relation.values(place.column) if cell is not None]
    return 2 * sum(" " in cell and "/" not in cell for cell in cells) >= len(cells) > 0


def _transfers_into(known: Knowledge, change: Change, name: str, old: str) -> Iterator[Draft]:
    rng = known.rng(f"transfer/{change.call.key}/{name}")
    answers = rng.sample(known.answers, min(40, len(known.answers)))
    for answer in answers:
        if answer.call.tool == change.call.tool:
            continue
        for way in itertools.islice(ways(known, answer.call, 2), 2):
            for relation in answer.relations:
                for query in known.queries(relation)[:2]:
                    draft = _transfer(known, change, name, old, way, relation, query)
                    if draft is not None:
                        yield draft


def _transfer(
    known: Knowledge, change: Change, name: str, old: str, way: Way, relation: Any, query: Any
) -> Draft | None:
    from turnwise.explore import algebra

    try:
        value = algebra.answer(query, [relation])
    except (LookupError, ValueError):
        return None
    if not isinstance(value, str) or not _MIN_CHARS <= len(value) <= 60 or query.kind != "text":
        return None
    arguments = copy.deepcopy(dict(change.call.arguments))
    put(arguments, name, value)
    call = Call(change.call.server, change.call.tool, arguments)
    moved = replace(
        change,
        call=call,
        probes=tuple(_with_value(probe, old, value) for probe in change.probes),
        mutations=(change.call,),
    )
    phrase, _ = entity_phrase(query, _things(known, way, relation))
    rest = {key: item for key, item in change.call.arguments.items() if key != name}
    if name not in change.call.arguments:
        return None
    taken = Taken(name, len(way.steps) - 1, query)
    program = Program(
        "transfer", (*way.steps, Step(call.server, call.tool, rest, (taken,))), changes=(moved,)
    )
    orders = [_order(known, Call(call.server, call.tool, rest), {name: phrase})]
    values = [*way.fixed, *flat(rest).values(), *(one.value for one in query.where)]
    return Draft(program, questions.change(orders), entities_of(values), 2.0)


def _with_value(probe: StateProbe, old: str, new: str) -> StateProbe:
    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(old, new)
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        return [changed(item) for item in value] if isinstance(value, list) else value

    return replace(
        probe,
        arguments=changed(dict(probe.arguments)),
        contains=changed(probe.contains),
        lacks=changed(probe.lacks),
        equals="",
    )
