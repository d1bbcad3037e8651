"""What programs are composed from: stable observations, the queries they answer, links and changes."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.exploration import Link
from turnwise.explore.first.change import Change
from turnwise.explore.first.connections import Connection, connections_of, links_of
from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.entities import EntityReader
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.operations import OPERATIONS
from turnwise.explore.first.query import Query
from turnwise.explore.first.splits import EntitySplits, assigned
from turnwise.explore.first.wording import fits_in_question
from turnwise.explore.first.wording.row_nouns import row_noun_of, with_row_noun
from turnwise.explore.first.worth import Worth, is_echo, worth_asking_about

_NUM_ALIKE = 3
"""Equal answers to the same query from which on it is a constant."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that the shapes may use; a shape changes nothing."""

    observations: tuple[Observation, ...]
    """Answers that repeat in fresh sessions, without the fields that change by themselves."""
    queries: Mapping[int, tuple[Query, ...]]
    """By number of an observation: what can be asked of its document."""
    worth: Worth
    """Which observations questions may start from."""
    connections: tuple[Connection, ...]
    links: tuple[Link, ...]
    changes: tuple[Change, ...]
    telling: Mapping[str, str]
    """By tool: the parameter whose values vary most, so that they tell its tasks apart."""
    reader: EntityReader
    splits: EntitySplits

    def asked(self, observation: Observation) -> tuple[Query, ...]:
        return self.queries.get(observation.number, ())

    def entities(self, *observations: Observation) -> tuple[str, ...]:
        """Return the values that tell these calls apart, also those that an earlier call leads to."""
        found = (entity for observation in observations for entity in self.reader.entities(observation))
        return tuple(dict.fromkeys(found))

    def split_of(self, *observations: Observation) -> str:
        """Return the split of a program with these calls; empty if their entities are of different ones."""
        return self.splits.split_of(self.entities(*observations))


def material_of(
    observations: Sequence[Observation], changes: Sequence[Change], seed: int, roots: Sequence[str] = ()
) -> Material:
    """Compute the queries, the links and the splits; `roots` are the folders that mcp.json names."""
    queries: dict[int, tuple[Query, ...]] = {}
    worth = worth_asking_about(observations)
    observations = [
        replace(seen, document=with_row_noun(seen.document, row_noun_of(seen.tool)))
        for seen in worth.observations
        if fits_in_question(seen.plain_arguments)
    ]
    for observation in observations:
        chance = random.Random(f"{seed}/{observation.key}")  # noqa: S311  # tasks, not secrets
        found = [query for name in OPERATIONS for query in OPERATIONS[name](observation.document, chance)]
        # a field that repeats an argument needs no call
        queries[observation.number] = tuple(query for query in found if not is_echo(query.value, observation))
    queries = _without_constants(observations, queries)
    reader = EntityReader(observations, roots)
    connections = connections_of(observations, roots)
    return Material(
        tuple(observations),
        queries,
        worth,
        tuple(connections),
        tuple(links_of(connections)),
        tuple(changes),
        dict(telling_parameters(observations)),
        reader,
        _splits(observations, queries, connections, reader, seed),
    )


def _splits(
    observations: Sequence[Observation],
    queries: Mapping[int, tuple[Query, ...]],
    connections: Sequence[Connection],
    reader: EntityReader,
    seed: int,
) -> EntitySplits:
    entities = {observation.number: reader.entities(observation) for observation in observations}
    calls = [(entities[seen.number], 1.0 + len(queries[seen.number])) for seen in observations]
    leads = [(entities[one.source.number], entities[one.target.number]) for one in connections]
    return assigned(calls, leads, seed)


def _without_constants(
    observations: Sequence[Observation], queries: Mapping[int, tuple[Query, ...]]
) -> dict[int, tuple[Query, ...]]:
    """Leave out queries that every call of a tool answers alike: no argument has to do with them."""
    answers: dict[tuple[str, str], list[str]] = {}
    for observation in observations:
        for query in queries[observation.number]:
            answers.setdefault((observation.tool.name, query.key), []).append(canonical(query.value))
    constant = {key for key, values in answers.items() if len(values) >= _NUM_ALIKE and len(set(values)) == 1}
    return {
        observation.number: tuple(
            query
            for query in queries[observation.number]
            if (observation.tool.name, query.key) not in constant or not observation.arguments
        )
        for observation in observations
    }


def telling_parameters(observations: Sequence[Observation]) -> Iterator[tuple[str, str]]:
    """Yield the most varied parameter of every tool that takes any."""
    seen: dict[str, dict[str, set[str]]] = {}
    for observation in observations:
        values = seen.setdefault(observation.tool.name, {})
        for name, value in observation.arguments.items():
            values.setdefault(name, set()).add(canonical(value.value))
    for tool, values in seen.items():
        if values:
            yield tool, max(values, key=lambda name: len(values[name]))


def steady(observation: Observation, volatile: frozenset[str]) -> Observation:
    """Return the observation without the fields and columns that change by themselves."""
    if not volatile:
        return observation
    document = observation.document
    fields = tuple(field for field in document.fields if field.name not in volatile)
    tables = tuple(_without(table, volatile) for table in document.tables)
    pruned = Document(
        document.text, fields, tuple(table for table in tables if table.columns), document.is_cut
    )
    return replace(observation, document=pruned)


def _without(table: Table, volatile: frozenset[str]) -> Table:
    columns = tuple(column for column in table.columns if column not in volatile)
    rows = tuple({key: value for key, value in row.items() if key in columns} for row in table.rows)
    return Table(table.path, columns, rows, table.noun)


def canonical(value: object) -> str:
    """Return one text for values that a tool treats alike: 3 and "3"."""
    return str(value) if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)


def is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
