"""Programs that only read: look-ups, chains over links, and comparisons of two things."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from turnwise.explore import algebra
from turnwise.explore.algebra.columns import is_location, is_machine_made
from turnwise.explore.algebra.query import Query
from turnwise.explore.algebra.things import Things
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import Knowledge, Source, entities_of
from turnwise.explore.programs.program import Asked, Program, Step, Taken, flat
from turnwise.explore.records import Answer, Call, Relation
from turnwise.explore.wording import questions
from turnwise.explore.wording.call_phrase import object_of, order, things_of
from turnwise.explore.wording.names import entity_noun, is_opaque

_PER_ANSWER = 60
_SOURCES = 6
_PER_SOURCE = 2
_DEPTH = 3
_PER_CHAIN = 3
_ROW_PAIRS = 8
_UNNAMED = ("value", "item", "result")
"""Columns that an answer does not name."""


@dataclass(frozen=True, slots=True)
class Way:
    """Steps that end with a call, and how its arguments are said."""

    steps: tuple[Step, ...]
    call: Call
    phrases: Mapping[str, str]
    """By parameter: the phrase of what is read from earlier answers."""
    nouns: Mapping[str, str]
    """By parameter: what such a thing is called."""
    fixed: tuple[Any, ...]
    """The values that the question states."""


def look_ups(known: Knowledge) -> Iterator[Draft]:
    """Yield questions about single answers."""
    for answer in known.answers:
        steps = _prelude(known, answer.call)
        step = Step(answer.call.server, answer.call.tool, answer.call.arguments)
        way = Way((*steps, step), answer.call, {}, {}, _values(answer.call))
        for relation in answer.relations:
            if known.is_news(answer, relation):
                for query in itertools.islice(known.queries(relation), _PER_ANSWER):
                    yield _draft(known, "look_up", way, relation, query)


def _prelude(known: Knowledge, call: Call) -> tuple[Step, ...]:
    prelude = known.survey.tools[call.tool].preludes.get(call.key, ())
    return tuple(Step(one.server, one.tool, one.arguments) for one in prelude)


def _values(call: Call) -> tuple[Any, ...]:
    return tuple(flat(call.arguments).values())


def chains(known: Knowledge) -> Iterator[Draft]:
    """Yield questions whose call takes what an earlier answer shows."""
    for answer in known.answers:
        for way in ways(known, answer.call, _DEPTH):
            if len(way.steps) < 2:
                continue
            for relation in filter(partial(known.is_news, answer), answer.relations):
                rng = known.rng(f"chain/{way.steps[0].tool}/{answer.call.key}")
                queries = known.queries(relation)
                best = queries[:4]
                for query in rng.sample(best, min(_PER_CHAIN, len(best))):
                    yield _draft(known, "chain", way, relation, query)


def ways(known: Knowledge, call: Call, depth: int) -> Iterator[Way]:
    """Yield ways to make a call: with its arguments as they are, or with one that earlier steps find."""
    prelude = _prelude(known, call)
    step = Step(call.server, call.tool, call.arguments)
    yield Way((*prelude, step), call, {}, {}, _values(call))
    if depth <= 1 or prelude:
        return
    for name, value in flat(call.arguments).items():
        if isinstance(value, list) and len(value) != 1:
            continue
        parameter = f"{name}[]" if isinstance(value, list) else name
        sources = list(known.sources(call, parameter))
        rng = known.rng(f"ways/{call.key}/{name}")
        for source in rng.sample(sources, min(_SOURCES, len(sources))):
            [wanted] = value if isinstance(value, list) else [value]
            bare = wanted.removeprefix(source.prefix) if source.prefix else wanted
            for query in known.reaching(source, bare)[:_PER_SOURCE]:
                for before in itertools.islice(ways(known, source.answer.call, depth - 1), _PER_SOURCE):
                    if call.tool in (one.tool for one in before.steps):
                        continue
                    yield _joined(known, before, source, query, call, parameter)


def _joined(known: Knowledge, before: Way, source: Source, query: Query, call: Call, parameter: str) -> Way:
    """Return the way that takes an argument from the last answer of another way."""
    number = len(before.steps) - 1
    taken = [Taken(parameter, number, query, source.prefix)]
    taken += [Taken(name, number, replace(query, column=column)) for name, column in source.link.companions]
    names = {one.parameter for one in taken}
    bare = {name.removesuffix("[]") for name in names}
    arguments = {name: value for name, value in call.arguments.items() if name not in bare}
    fixed = tuple(value for name, value in flat(call.arguments).items() if name not in bare)
    things = _things(known, before, source.relation)
    phrase, noun = entity_phrase(query, things)
    step = Step(call.server, call.tool, arguments, tuple(taken))
    named = tuple(one.value for one in query.where)
    return Way(
        (*before.steps, step), call, {parameter: phrase}, {parameter: noun}, (*before.fixed, *named, *fixed)
    )


def entity_phrase(query: Query, things: Things) -> tuple[str, str]:
    """Return the phrase of a thing that a query leads to, and the noun for it: no "id of the …"."""
    phrase = algebra.phrase(query, things)
    column = f"the {things.column(query.column, query.kind)} of "
    noun = entity_noun(query.column)
    if not phrase.startswith(column):
        return phrase, noun or things.column(query.column, query.kind)
    rest = phrase.removeprefix(column)
    if (
        (noun in ("", things.noun) or is_opaque(query.column))
        and things.noun
        and rest.startswith(f"the {things.noun}")
    ):
        return rest, things.noun
    return (f"the {noun} of {rest}", noun) if noun else (phrase, things.column(query.column, query.kind))


def _things(
    known: Knowledge, way: Way, relation: Relation, phrases: Mapping[str, str] | None = None
) -> Things:
    tool = known.survey.tools[way.call.tool].tool
    said_phrases = way.phrases if phrases is None else phrases
    arguments = way.steps[-1].arguments
    said = known.said(way.call.tool, arguments, said_phrases, relation.noun)
    return things_of(tool, known.noun(relation), relation.is_list, said)


def _draft(known: Knowledge, shape: str, way: Way, relation: Relation, query: Query) -> Draft:
    phrase = algebra.phrase(query, _things(known, way, relation))
    program = Program(shape, way.steps, (Asked(len(way.steps) - 1, query),))
    if way.phrases:
        last = algebra.phrase(
            query, _things(known, way, relation, {name: f"that {noun}" for name, noun in way.nouns.items()})
        )
        first = next(iter(way.phrases.values()))
        wordings = questions.chain(phrase, first, last, program.form)
    elif is_computation(known, way, relation):
        wordings = computed(known, way, relation, query, program)
    else:
        wordings = questions.ask(phrase, program.form)
    values = (*way.fixed, *(one.value for one in query.where))
    return Draft(program, wordings, entities_of(values), worth(known, program, relation, values))


def is_computation(known: Knowledge, way: Way, relation: Relation) -> bool:
    """Return whether a call is told from others by what is done with its arguments, not by what they name."""
    said = known.said(way.call.tool, way.call.arguments, {}, relation.noun)
    return not relation.is_list and len(said) > 0 and not any(one.entity for one in said)


def computed(
    known: Knowledge, way: Way, relation: Relation, query: Query, program: Program
) -> tuple[str, ...]:
    """Return wordings that say what the tool does with the arguments."""
    tool = known.survey.tools[way.call.tool].tool
    said = known.said(way.call.tool, way.call.arguments, {}, relation.noun)
    is_alone = len(relation.columns) == 1 and relation.columns[0].name in (relation.noun, *_UNNAMED)
    phrase = "the result" if is_alone else algebra.phrase(query, Things(relation.noun or object_of(tool)))
    return questions.compute(order(tool, said), phrase, program.form)


def num_options(known: Knowledge, step: Step) -> int:
    """Return how many arguments a call could do without."""
    required = known.survey.tools[step.tool].tool.input_schema.get("required", [])
    return sum(name not in required and not known.links(step.tool, name) for name in step.arguments)


def worth(known: Knowledge, program: Program, relation: Relation, values: tuple[Any, ...]) -> float:
    """Return how much a person would want to ask: chains, data and names count, codes and paths do not."""
    query = program.asked[-1].query
    score = 2.0 * (len(program.steps) - 1) + (len(program.servers) - 1)
    score += {"extreme": 1.0, "aggregate": 1.0, "group": 1.0, "count": 0.5}.get(query.operation, 0.0)
    names = [column.name for column in relation.columns]
    if query.column in names:
        cells = [cell for cell in relation.values(query.column) if cell is not None]
        score -= 1.5 * any(isinstance(cell, str) and is_machine_made(cell) for cell in cells)
        score -= 1.0 * any(map(is_location, cells))
    score -= 0.7 * num_options(known, program.steps[-1])
    score -= 0.5 * max(0, query.column.count(".") - 1)
    score -= 0.5 * sum(is_machine_made(value) or is_location(value) for value in values)
    return score - 0.2 * max(0, len(values) - 2)


def comparisons(known: Knowledge) -> Iterator[Draft]:
    """Yield the difference or the total of one column for two things."""
    for facts in known.survey.readers():
        if facts.is_pure:
            continue
        alone = [answer for answer in facts.answers if len(flat(answer.call.arguments)) == 1]
        for one, other in itertools.pairwise(alone[:12]):
            yield from _compared(known, one, other)


def comparisons_within(known: Knowledge) -> Iterator[Draft]:
    """Yield the difference or the total of one column for two rows of a list."""
    for answer in known.answers:
        way = Way(
            (Step(answer.call.server, answer.call.tool, answer.call.arguments),), answer.call, {}, {}, ()
        )
        for relation in filter(partial(known.is_news, answer), answer.relations):
            yield from _two_rows(known, way, relation)


def _two_rows(known: Knowledge, way: Way, relation: Relation) -> Iterator[Draft]:
    roles = known.roles(relation)
    if not relation.is_list or known.survey.tools[way.call.tool].preludes.get(way.call.key):
        return
    look_ups = [
        query
        for query in known.queries(relation)
        if query.operation == "look_up" and query.column in roles.measures and query.where
    ]
    rng = known.rng(f"rows/{way.call.key}/{relation.path}")
    for query in rng.sample(look_ups, min(_ROW_PAIRS, len(look_ups))):
        others = [one for one in look_ups if one.column == query.column and one.where != query.where]
        if not others or is_machine_made(query.where[0].value):
            continue
        other = rng.choice(others)
        combination = rng.choice(
            ("difference", "total") if query.column in roles.amounts else ("difference",)
        )
        program = Program("compare", way.steps, (Asked(0, query), Asked(0, other)), combination)
        things = _things(known, way, relation)
        first, second = (algebra.phrase(one, things) for one in (query, other))
        column = f"the {things.column(query.column, query.kind)} of "
        if combination == "difference":
            phrase = f"the difference between {first} and {second}"
        else:
            rest = f"{first.removeprefix(column)} and {second.removeprefix(column)}"
            phrase = f"the total {column.removeprefix('the ')}{rest}"
        values = (*_values(way.call), query.where[0].value, other.where[0].value)
        score = worth(known, program, relation, values) + 0.5
        yield Draft(program, questions.ask(phrase, program.form), entities_of(values), score)


def _compared(known: Knowledge, one: Answer, other: Answer) -> Iterator[Draft]:
    for relation in one.relations:
        pooled = known.pooled(relation.call.tool, relation.path)
        twins = [twin for twin in other.relations if twin.path == relation.path]
        if relation.is_list or pooled is None or not twins or len(relation.rows) != 1:
            continue
        roles = known.roles(pooled)
        for name in roles.measures:
            if not {name} <= {column.name for column in twins[0].columns} & {
                column.name for column in relation.columns
            }:
                continue
            kind = next(column.kind for column in relation.columns if column.name == name)
            query = Query("field", relation.path, relation.noun, name, kind)
            yield from _pair(known, one.call, other.call, relation, query, is_amount=name in roles.amounts)


def _pair(
    known: Knowledge, one: Call, other: Call, relation: Relation, query: Query, *, is_amount: bool
) -> Iterator[Draft]:
    steps = tuple(Step(call.server, call.tool, call.arguments) for call in (one, other))
    subjects = []
    for step, call in zip(steps, (one, other), strict=True):
        things = _things(known, Way((step,), call, {}, {}, ()), relation)
        subjects.append((things.subject or things.tail.strip(), things.column(query.column, query.kind)))
    (first, column), (second, _) = subjects
    for combination in ("difference", "total") if is_amount else ("difference",):
        program = Program("compare", steps, (Asked(0, query), Asked(1, query)), combination)
        if combination == "difference":
            phrase = f"the difference between the {column} of {first} and the {column} of {second}"
        else:
            phrase = f"the total {column} of {first} and {second}"
        values = (*_values(one), *_values(other))
        yield Draft(
            program,
            questions.ask(phrase, program.form),
            entities_of(values),
            worth(known, program, relation, values) - 0.5,
        )
