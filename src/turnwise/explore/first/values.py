"""Values that calls may be made with, and a store that ranks them for a parameter."""

import json
import math
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from turnwise.explore.first.document import Path
from turnwise.explore.first.drawn_values import usual_values
from turnwise.explore.first.evidence import Evidence, Group, parts_of
from turnwise.explore.first.name_words import name_fit
from turnwise.explore.first.prose_examples import examples_in
from turnwise.explore.first.sql_queries import statements
from turnwise.explore.first.value_formats import SIMILAR_FORMATS, format_examples, format_of, wanted_format
from turnwise.explore.survey.parameters import Kind, Parameter
from turnwise.types import Tool

MAX_PER_SOURCE = 4_000
MAX_PER_NAME = 200
"""Values of one source and name: one table of ids must not fill the store."""

MAX_UNRELATED = 10
"""Values of one name that are tried for a parameter that they do not fit."""

MAX_UNRELATED_NUMBER = 1_000
"""Larger numbers are ids and timestamps: no good value of a count or a limit."""

MAX_NAME_WORDS = 4
"""A text of more words is prose: hardly the value of a parameter that nothing is known about."""

MAX_FOLDERS = 3
MAX_JOINED = 50
"""Folders of mcp.json, and names of files, that are joined to paths."""

MAX_FIT_FAILURES = 4
"""Failures with fitting values of one name, without a success, after which others come first; else 2."""

MIN_FIT = 2
"""Name fit from which a value is offered as a fitting one (see `name_fit`)."""


class Source(StrEnum):
    """Where a value was found."""

    SCHEMA = "schema"
    """An enum, a default, a constant or an example of an input schema."""
    DESCRIPTION = "description"
    """An example in the prose of a tool or a parameter."""
    CONFIG = "config"
    """An argument or a folder that stands in mcp.json."""
    USER = "user"
    """The user's own values."""
    ANSWER = "answer"
    """A field of an answer."""
    RESOURCE = "resource"
    """The address or a part of a resource that a server offers."""
    ERROR = "error"
    """A value that an error message names."""
    DRAWN = "drawn"
    """A number or a text drawn at random within the schema's bounds."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value, the name it was found under, and where."""

    value: Any
    name: str
    source: Source
    observation: int | None = None
    """ANSWER: the number of the observation whose answer holds it; None if it is made of parts of one."""
    path: Path = ()
    """ANSWER: where in the document it is."""
    context: str = ""
    """The table or the tool that it was found in: `id` in `channels` fits the parameter `channel_id`."""


class Tier(StrEnum):
    """Why a value is offered for a parameter, the best reason first."""

    PROVEN = "proven"
    SCHEMA = "schema"
    EXAMPLE = "example"
    ERROR = "error"
    USER = "user"
    FIT = "fit"
    ANY = "any"
    DRAWN = "drawn"
    REFUSED = "refused"


_FREE_SOURCES = (Source.ANSWER, Source.RESOURCE, Source.CONFIG, Source.USER)
"""Sources whose values are tried where nothing fits: an example of one parameter is none of another."""

PROMISING = (Tier.PROVEN, Tier.SCHEMA, Tier.EXAMPLE, Tier.ERROR, Tier.USER, Tier.FIT)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value for a parameter, and why it is offered."""

    value: Value
    tier: Tier

    @property
    def is_promising(self) -> bool:
        return self.tier in PROMISING


@dataclass(frozen=True, slots=True)
class _Entry:
    """A stored value, its place in the order of finding, and its key."""

    place: int
    key: str
    value: Value


class ValueStore:
    """The values found so far, without duplicates and within bounds."""

    def __init__(self, values: Iterable[Value] = ()) -> None:
        self._groups: dict[tuple[Source, str, str], list[_Entry]] = {}
        """Entries by source, name and context: the values of a group fit a parameter alike."""
        self._of_format: dict[str, list[_Entry]] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self._num_of_source: Counter[Source] = Counter()
        self._num_uses: Counter[str] = Counter()
        self.evidence: Evidence[Value] = Evidence()
        for value in values:
            self.add(value)

    def __len__(self) -> int:
        return self._num_of_source.total()

    def __iter__(self) -> Iterator[Value]:
        for group in self._groups.values():
            yield from (entry.value for entry in group)

    def add(self, value: Value) -> bool:
        """Keep a value; False if it is known under this name, or its source or name has enough values."""
        entry = _Entry(len(self), value_key(value.value), value)
        group = self._groups.setdefault((value.source, value.name, value.context), [])
        is_full = self._num_of_source[value.source] >= MAX_PER_SOURCE or len(group) >= MAX_PER_NAME
        if (entry.key, value.name, value.context) in self._seen or is_full:
            return False
        self._seen.add((entry.key, value.name, value.context))
        self._num_of_source[value.source] += 1
        group.append(entry)
        if isinstance(value.value, str):
            self._of_format.setdefault(format_of(value.value), []).append(entry)
        return True

    def count_use(self, value: Value) -> None:
        """Record that a call is made with a value: values that were used less are offered first."""
        self._num_uses[value_key(value.value)] += 1

    def succeeded(self, tool: Tool, arguments: Mapping[str, Value]) -> None:
        """Record that a call was answered: its arguments come first for the other tools of the server."""
        for name, value in arguments.items():
            for part in parts_of(value.value):
                self.evidence.succeeded(tool, name, part, replace(value, value=part), _group_of(value))

    def failed(self, tool: Tool, arguments: Mapping[str, Value], message: str) -> None:
        """Record that a call failed: values that the error blames are tried last."""
        plain = {name: value.value for name, value in arguments.items()}
        groups = {name: _group_of(value) for name, value in arguments.items()}
        self.evidence.failed(tool, plain, groups, message)

    def candidates(self, parameter: Parameter, *, limit: int) -> list[Value]:
        """Return values for a parameter, the most promising first."""
        return [candidate.value for candidate in self.ranked(parameter, limit=limit)]

    def ranked(self, parameter: Parameter, *, limit: int, tool: Tool | None = None) -> list[Candidate]:
        """Return candidates for a parameter of a tool, the most promising first, without duplicates."""
        found: dict[str, Candidate] = {}
        for tier, value in self._offers(parameter, limit, tool):
            fitted = _fitted(parameter, value)
            if fitted is not None:
                found.setdefault(value_key(fitted.value), Candidate(fitted, tier))
            if len(found) >= limit:
                break
        return list(found.values()) if tool is None else self._by_evidence(parameter, tool, found)

    def _by_evidence(
        self, parameter: Parameter, tool: Tool, found: Mapping[str, Candidate]
    ) -> list[Candidate]:
        """Return proven values, those found where proven ones were found, the others, then blamed ones."""
        ordered: dict[str, Candidate] = {}
        others: dict[str, Candidate] = {}
        last: dict[str, Candidate] = {}
        for value in self.evidence.proven(tool, parameter.name) if not parameter.enum else ():
            fitted = _fitted(parameter, value)
            if fitted is not None:
                key = value_key(fitted.value)
                known = found[key].value if key in found else fitted
                ordered.setdefault(key, Candidate(known, Tier.PROVEN))
        for key, candidate in found.items():
            worked, failed = self.evidence.group_record(tool, parameter.name, _group_of(candidate.value))
            is_hopeless = not worked and failed >= (MAX_FIT_FAILURES if candidate.is_promising else 2)
            is_refused = self.evidence.is_refused(tool, parameter.name, candidate.value.value)
            if key in ordered:
                continue
            if is_refused or (is_hopeless and not parameter.enum):
                last[key] = replace(candidate, tier=Tier.REFUSED)
            elif candidate.tier is Tier.ANY and worked:
                ordered[key] = replace(candidate, tier=Tier.FIT)
            else:
                others[key] = candidate
        return [*(ordered | others).values(), *last.values()]

    def _offers(self, parameter: Parameter, limit: int, tool: Tool | None) -> Iterator[tuple[Tier, Value]]:
        yield from ((Tier.SCHEMA, value) for value in _schema_values(parameter))
        if parameter.enum:
            return
        for text in (*examples_in(parameter.description), *format_examples(parameter.description)):
            yield Tier.EXAMPLE, Value(text, parameter.name, Source.DESCRIPTION)
        if parameter.kind is Kind.ARRAY and parameter.items is not None:
            yield from self._arrays(parameter, parameter.items, limit, tool)
        elif parameter.kind is Kind.OBJECT:
            yield from self._objects(parameter, tool)
        elif parameter.kind is not Kind.BOOLEAN:
            yield from self._stored(parameter)
        for plain in usual_values(parameter):
            yield Tier.DRAWN, Value(plain, parameter.name, Source.DRAWN)

    def _stored(self, parameter: Parameter) -> Iterator[tuple[Tier, Value]]:
        """Yield values that were found for this parameter, then fitting ones, then those used least."""
        for tier, source in ((Tier.ERROR, Source.ERROR), (Tier.USER, Source.USER)):
            yield from ((tier, value) for value in self._named(parameter, source))
        wanted = wanted_format(parameter)
        if wanted == "sql":
            made = statements(parameter.description, self._tables())
            yield from ((Tier.FIT, Value(text, parameter.name, Source.DRAWN)) for text in made)
            return
        if wanted:
            yield from ((Tier.FIT, value) for value in self._of_wanted_format(parameter, wanted))
            yield from ((Tier.ANY, value) for value in self._below_folders() if wanted == "path")
            return
        fits = {key: name_fit(parameter.name, *key[1:]) for key in self._groups}
        fitting = [(fit, entry) for key, fit in fits.items() if fit >= MIN_FIT for entry in self._groups[key]]
        yield from ((Tier.FIT, value) for value in self._best_first(fitting))
        others = [key for key, fit in fits.items() if fit < MIN_FIT and key[0] in _FREE_SOURCES]
        rest = [
            (_likeliness(one.value.value) - number, one)
            for key in others
            for number, one in enumerate(self._groups[key][:MAX_UNRELATED])
            if _may_be_tried(parameter, one.value.value)
        ]
        yield from ((Tier.ANY, value) for value in self._best_first(rest))

    def _best_first(self, scored: Iterable[tuple[int, _Entry]]) -> Iterator[Value]:
        """Yield values by falling score; of equal ones, those used least and found first."""
        num_uses = self._num_uses.get
        ordered = sorted(scored, key=lambda one: (-one[0], num_uses(one[1].key, 0), one[1].place))
        yield from (entry.value for _, entry in ordered)

    def _named(self, parameter: Parameter, source: Source) -> Iterator[Value]:
        """Yield the values of a source that were found for a parameter, then those without a name."""
        groups = {key: group for key, group in self._groups.items() if key[0] is source}
        for key, group in groups.items():
            if key[1] and name_fit(parameter.name, key[1]) >= MIN_FIT:
                yield from (entry.value for entry in group)
        for key, group in groups.items():
            if not key[1]:
                yield from (entry.value for entry in group)

    def _of_wanted_format(self, parameter: Parameter, wanted: str) -> Iterator[Value]:
        """Yield values of the format that a parameter wants, then others whose name is nearly its own."""
        scored: list[tuple[int, _Entry]] = []
        for found in (wanted, *SIMILAR_FORMATS.get(wanted, ())):
            for entry in self._of_format.get(found, []):
                value = entry.value
                fit = name_fit(parameter.name, value.name, value.context)
                scored.append(
                    (fit + 10 * (value.source is Source.CONFIG) + (10 if found == wanted else 5), entry)
                )
        for key, group in self._groups.items():
            fit = name_fit(parameter.name, *key[1:])
            scored.extend((fit, entry) for entry in group if fit >= 3)
        return self._best_first(scored)

    def _tables(self) -> Iterator[str]:
        """Yield texts that were found as names of tables."""
        for key, group in self._groups.items():
            if name_fit("table_name", *key[1:]) >= 3:
                yield from (entry.value.value for entry in group if isinstance(entry.value.value, str))

    def _below_folders(self) -> Iterator[Value]:
        """Yield names of files in answers as paths below the folders in mcp.json."""
        paths = (entry.value for entry in self._of_format.get("path", []))
        folders = [one.value for one in paths if one.source is Source.CONFIG and one.name == "folder"]
        for folder in folders[:MAX_FOLDERS]:
            for entry in self._of_format.get("file", [])[:MAX_JOINED]:
                if entry.value.source is Source.ANSWER:
                    yield Value(posixpath.join(folder, entry.value.value), "path", Source.ANSWER)

    def _arrays(
        self, parameter: Parameter, items: Parameter, limit: int, tool: Tool | None
    ) -> Iterator[tuple[Tier, Value]]:
        """Yield lists of one item and of two."""
        found = self.ranked(items, limit=limit, tool=tool)
        for number, candidate in enumerate(found):
            one = candidate.value
            yield candidate.tier, replace(one, value=[one.value], name=parameter.name)
            if number + 1 < len(found):
                pair = [one.value, found[number + 1].value.value]
                yield candidate.tier, Value(pair, parameter.name, one.source, context=one.context)

    def _objects(self, parameter: Parameter, tool: Tool | None) -> Iterator[tuple[Tier, Value]]:
        """Yield an object of the best values of its properties, then one of the second best."""
        needed = [part for part in parameter.properties if part.is_required] or list(parameter.properties)
        found = [self.ranked(part, limit=2, tool=tool) for part in needed]
        if not all(found):
            return
        for number in range(2):
            parts = [offers[min(number, len(offers) - 1)] for offers in found]
            made = {part.name: offer.value.value for part, offer in zip(needed, parts, strict=True)}
            is_promising = bool(parts) and all(offer.is_promising for offer in parts)
            yield Tier.FIT if is_promising else Tier.ANY, Value(made, parameter.name, Source.DRAWN)


def value_key(value: Any) -> str:
    """Return a text that is the same for equal values of the same type."""
    return json.dumps(value, sort_keys=True, default=str)


def _group_of(value: Value) -> Group:
    return (value.source, value.name, value.context)


def _may_be_tried(parameter: Parameter, plain: Any) -> bool:
    """Whether a value is tried although its name does not fit: texts for texts, small numbers for numbers."""
    if parameter.kind is Kind.TEXT:
        return isinstance(plain, str)
    return not isinstance(plain, int | float) or abs(plain) <= MAX_UNRELATED_NUMBER


def _likeliness(plain: Any) -> int:
    """Return how likely a value is that of any parameter: names and ids are, prose and paths are not."""
    is_special = isinstance(plain, str) and format_of(plain) in ("path", "url", "datetime", "email")
    is_prose = isinstance(plain, str) and len(plain.split()) > MAX_NAME_WORDS
    return -MAX_UNRELATED * (is_special + 2 * is_prose)


def _schema_values(parameter: Parameter) -> Iterator[Value]:
    """Yield the default if it is one of an enum, the enum, examples, then any default."""
    listed = [*parameter.enum, *parameter.examples]
    is_first = parameter.default is not None and parameter.default in parameter.enum
    ordered = [parameter.default, *listed] if is_first else [*listed, parameter.default]
    yield from (Value(value, parameter.name, Source.SCHEMA) for value in ordered if value is not None)


def _fitted(parameter: Parameter, value: Value) -> Value | None:
    """Return the value in the parameter's type, 7 as "7" for a text; None if the parameter refuses it."""
    plain = value.value
    if parameter.kind is Kind.TEXT and isinstance(plain, int | float) and not isinstance(plain, bool):
        plain = str(plain)
    elif parameter.kind in (Kind.INTEGER, Kind.NUMBER) and isinstance(plain, str):
        plain = _number_in(plain)
    if parameter.kind is Kind.INTEGER and isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if plain is None or not parameter.accepts(plain):
        return None
    return value if plain is value.value else replace(value, value=plain)


def _number_in(text: str) -> float | None:
    try:
        number = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
