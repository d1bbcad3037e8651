"""What programs are composed of: the survey, indexed by call, by link and by value."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from turnwise.explore import algebra
from turnwise.explore.algebra.columns import Roles, is_machine_made, roles_of
from turnwise.explore.algebra.query import Query
from turnwise.explore.programs.program import flat
from turnwise.explore.records import (
    Answer,
    Call,
    ColumnPlace,
    Link,
    Path,
    Relation,
    Scalar,
    Survey,
)
from turnwise.explore.wording.call_phrase import Said, object_of, value_words
from turnwise.explore.wording.names import entity_noun, is_handle, is_opaque, singular

_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Source:
    """A row of an answer that holds the value of an argument."""

    answer: Answer
    relation: Relation
    place: ColumnPlace
    link: Link
    prefix: str = ""
    """What the argument has before the value."""


class Knowledge:
    """The survey, with the lookups that composing needs."""

    def __init__(self, survey: Survey, seed: int) -> None:
        self.survey = survey
        self.seed = seed
        self._links: dict[tuple[str, str], list[Link]] = defaultdict(list)
        for link in survey.links:
            self._links[link.tool, link.parameter.removesuffix("[]")].append(link)
        self._roles: dict[tuple[str, Path], Roles] = {}

    def rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 (a draw of programs, not a secret)

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers that questions are about: those of readers that do not compute."""
        return [answer for facts in self.survey.readers() if not facts.is_pure for answer in facts.answers]

    def noun(self, relation: Relation) -> str:
        """Return what a row is called."""
        is_shared = (relation.call.tool, relation.path) in self.shared_paths
        own = "" if is_opaque(relation.noun) else singular(relation.noun)
        return "entry" if is_shared and relation.is_list else own

    @cached_property
    def shared_paths(self) -> frozenset[tuple[str, Path]]:
        """The tools and paths at which different kinds of rows stand: their names say nothing of the rows."""
        columns: dict[tuple[str, Path], set[tuple[str, ...]]] = defaultdict(set)
        for answer in self.answers:
            for relation in answer.relations:
                names = tuple(column.name for column in relation.columns)
                columns[answer.call.tool, relation.path].add(names)
        return frozenset(key for key, kinds in columns.items() if _are_unlike(kinds))

    def is_news(self, answer: Answer, relation: Relation) -> bool:
        """Return whether a part of an answer is worth questions: it is not shown by a shorter call.

        Fields that stand beside a list are not, unless they are those of a thing that was looked up.
        """
        has_list = not relation.is_list and any(one.is_list for one in answer.relations)
        if has_list and not self.takes_things(answer.call, "key"):
            return False
        own = flat(answer.call.arguments).items()
        for other in self.survey.tools[answer.call.tool].answers:
            less = flat(other.call.arguments).items()
            if less < own and any(
                one.path == relation.path and one.rows == relation.rows for one in other.relations
            ):
                return False
        return True

    @cached_property
    def linked_columns(self) -> Mapping[tuple[str, Path], frozenset[str]]:
        """By tool and path: the columns that other calls take."""
        found: dict[tuple[str, Path], set[str]] = defaultdict(set)
        for link in self.survey.links:
            for place in link.columns:
                found[place.tool, place.path].add(place.column)
        return {key: frozenset(columns) for key, columns in found.items()}

    def links(self, tool: str, parameter: str) -> list[Link]:
        """Return the links of a parameter; of a list, those of its items."""
        return self._links.get((tool, _INDEX.sub("[]", parameter).removesuffix("[]")), [])

    def takes_things(self, call: Call, *kinds: str) -> bool:
        """Return whether an argument of a call is linked in one of these ways."""
        return any(
            link.kind in kinds for name in flat(call.arguments) for link in self.links(call.tool, name)
        )

    def is_complete(self, relation: Relation) -> bool:
        """Return whether a relation has all things of its kind, or all that a proven filter keeps."""
        if (relation.call.key, relation.path) in self.survey.complete:
            return True
        names = flat(relation.call.arguments)
        return bool(names) and all(
            any(link.kind != "new" for link in self.links(relation.call.tool, name)) for name in names
        )

    def pooled(self, tool: str, path: Path) -> Relation | None:
        """Return the rows that all answers of a tool have at a path, as one list."""
        relations = [
            relation
            for answer in self.survey.tools[tool].answers
            for relation in answer.relations
            if relation.path == path
        ]
        if not relations:
            return None
        first = relations[0]
        names = [column.name for column in first.columns]
        alike = [one for one in relations if [column.name for column in one.columns] == names]
        rows = tuple(dict.fromkeys(row for one in alike for row in one.rows))
        return replace(first, rows=rows, is_list=True)

    def roles(self, relation: Relation) -> Roles:
        """Return the roles of a relation's columns."""
        key = (relation.call.tool, relation.path)
        is_pure = self.survey.tools[relation.call.tool].is_pure
        return roles_of(relation, frozenset() if is_pure else self.linked_columns.get(key, frozenset()))

    def queries(self, relation: Relation) -> list[Query]:
        return algebra.drafts(relation, self.roles(relation), is_complete=self.is_complete(relation))

    def said(
        self, tool: str, arguments: Mapping[str, Any], phrases: Mapping[str, str], noun: str
    ) -> list[Said]:
        """Return the arguments of a call in words; `phrases` has those that are read from earlier answers."""
        found = [Said(name, words, "", is_phrase=True) for name, words in phrases.items()]
        for name, value in flat(arguments).items():
            is_idle = value in ({}, []) and self.survey.tools[tool].role == "reader"
            if name in phrases or f"{name}[]" in phrases or is_idle:
                continue
            entity = self._entity(tool, name)
            found.append(Said(name, value_words(value), entity))
        return found

    def _entity(self, tool: str, name: str) -> str:
        """Return what a value is called; empty if the parameter does not take things."""
        last = name.rpartition(".")[2].rstrip("[]")
        own, thing = entity_noun(last), object_of(self.survey.tools[tool].tool)
        if is_handle(last, or_name=True):  # `customerName`, or `path`
            return own or thing
        links = self.links(tool, name)
        nouns = [entity_noun(link.entity) for link in links]
        if own and not any(set(own.split()) & set(found.split()) for found in nouns):
            return ""
        return own or (min(filter(None, nouns), key=len, default=thing) if links else "")

    def sources(self, call: Call, parameter: str) -> Iterator[Source]:
        """Yield the rows of other answers that hold an argument of a call."""
        wanted = flat(call.arguments).get(parameter.removesuffix("[]"))
        wanted = wanted[0] if isinstance(wanted, list) and wanted else wanted
        places = {
            (place, link.prefix): link for link in self.links(call.tool, parameter) for place in link.columns
        }
        for (place, _), link in places.items():
            for answer in self.survey.tools[place.tool].answers:
                if answer.call == call:
                    continue
                prefix = _prefix(link, answer.call)
                for relation in answer.relations:
                    is_new = relation.path == place.path and self.is_news(answer, relation)
                    if is_new and _holds(relation, place.column, wanted, prefix):
                        yield Source(answer, relation, place, link, prefix)

    def reaching(self, source: Source, wanted: Scalar) -> list[Query]:
        """Return queries that come to the value which a later call needs."""
        column = source.place.column
        roles = self.roles(source.relation)
        names = tuple(name for name in roles.names if name != column)
        roles = replace(roles, asked=(column,), names=names, best=(column,))
        drafts = algebra.drafts(source.relation, roles, is_complete=self.is_complete(source.relation))
        found = []
        for query in drafts:
            if query.column != column or query.operation not in ("field", "look_up", "extreme"):
                continue
            if any(is_machine_made(one.value) for one in query.where):
                continue
            try:
                if algebra.answer(query, [source.relation]) == wanted:
                    found.append(query)
            except (LookupError, ValueError):
                continue
        return found


def _are_unlike(kinds: set[tuple[str, ...]]) -> bool:
    """Return whether two sets of columns have little in common."""
    return any(len(set(one) & set(other)) * 2 < min(len(one), len(other)) for one in kinds for other in kinds)


def _prefix(link: Link, call: Call) -> str:
    if not link.prefix:
        return ""
    return f"{str(flat(call.arguments).get(link.prefix, '')).rstrip('/')}/"


def _holds(relation: Relation, column: str, wanted: Any, prefix: str) -> bool:
    names = [one.name for one in relation.columns]
    if column not in names:
        return False
    return any(
        cell is not None and (f"{prefix}{cell}" if prefix else cell) == wanted
        for cell in relation.values(column)
    )


def entities_of(values: Sequence[Any]) -> tuple[str, ...]:
    """Return the texts and names among the values of a question, each once."""
    items = (item for value in values for item in (value if isinstance(value, list) else [value]))
    named = (
        str(item) for item in items if isinstance(item, str | int | float) and not isinstance(item, bool)
    )
    return tuple(dict.fromkeys(named))
