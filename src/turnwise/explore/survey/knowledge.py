"""Values that were found, and arguments for a tool made of them."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from turnwise.explore.reading.cells import noun_of, singular, words_of
from turnwise.explore.records import Answer, Scalar
from turnwise.explore.survey.drawing import NAMES, drawn, examples_of, fitted, format_of, has_form
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Tool

_NAMED_FOR = 3
"""How well names agree where a parameter is named for a column."""
_MIN_WORD = 3
_MAX_ROWS = 60
"""Rows of one relation that are kept as sources of arguments."""
_MAX_SOURCES = 3_000
_FREE = ("", "path")
"""Formats whose values are known from answers only."""
_PER_COLUMN = 8
_MAX_CHARS = 80
_MAX_CANDIDATES = 40


@dataclass(frozen=True, slots=True)
class Thing:
    """One row of an answer with its noun and the arguments of its call: arguments that belong together."""

    tool: str
    noun: str
    cells: Mapping[str, Scalar]
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Knowledge:
    """What arguments can be made of; grows with every answer."""

    user: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of the user's own by parameter name."""
    loose: list[tuple[str, Any]] = field(default_factory=list)
    """Values with a name, from mcp.json, resources and prompts."""
    things: list[Thing] = field(default_factory=list)
    proven: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """By tool and parameter; the tool `*` pools all of them."""
    taught: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    refused: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _columns: dict[tuple[str, str, str], list[Scalar]] = field(default_factory=dict)
    """A few values of every column, by tool, noun and name."""
    _tried_columns: dict[tuple[str, str], set[tuple[str, str, str]]] = field(default_factory=dict)

    def learn(self, answer: Answer) -> int:
        """Keep the rows of an answer; return how many are new."""
        num_new = 0
        context = dict(answer.call.arguments)
        for relation in answer.relations:
            if not relation.is_list:
                context = {**next(relation.records(), {}), **context}
        for relation in answer.relations:
            for cells in list(relation.records())[:_MAX_ROWS]:
                key = (relation.noun, repr(sorted(cells.items(), key=str)))
                if cells and key not in self._seen and len(self.things) < _MAX_SOURCES:
                    self._seen.add(key)
                    num_new += 1
                    self.things.append(Thing(answer.call.tool, relation.noun, cells, context))
                    for name, cell in cells.items():
                        column = self._columns.setdefault((answer.call.tool, relation.noun, name), [])
                        if len(column) < _PER_COLUMN:
                            column.append(cell)
        return num_new

    def prove(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Note that a call succeeded."""
        for name, value in arguments.items():
            for key in ((tool, name), ("*", name)):
                values = self.proven.setdefault(key, [])
                if value not in values:
                    values.append(value)

    def refuse(self, tool: str, name: str, value: Any) -> None:
        """Note that an error blamed a value."""
        self.refused.setdefault((tool, name), set()).add(repr(value))

    def propose(self, tool: Tool, attempt: int, rng: Random, asked: Collection[str] = ()) -> dict[str, Any]:
        """Return arguments for a tool: the most likely at the first attempt, others at later ones.

        asked: optional parameters that are given always.
        """
        parameters = parameters_of(tool)
        chosen = [one for one in parameters if one.is_required or one.name in asked]
        optional = [one for one in parameters if one not in chosen]
        if attempt % 3 == 2 and optional:
            chosen.append(rng.choice(optional))
        elif attempt % 5 == 4:
            chosen += [one for one in optional if one.kind is not Kind.BOOLEAN]
        thing = self._focus(chosen, attempt, rng)
        unproven = [one for one in chosen if ("*", one.name) not in self.proven] or chosen
        varied = rng.choice(unproven if attempt % 8 else chosen).name if chosen and attempt else ""
        arguments = {}
        for parameter in chosen:
            own = attempt if parameter.name == varied else 0  # the others keep their best values
            value = self.value(tool.name, parameter, own, rng, thing)
            if value is not None:
                arguments[parameter.name] = value
        named = {one.name for one in chosen if not one.enum and format_of(one) in ("", "path")}
        return _with_new_names(arguments, named, rng) if attempt % 3 == 1 else arguments

    def _focus(self, parameters: Sequence[Parameter], attempt: int, rng: Random) -> Thing | None:
        """Choose a row that has values for several of the parameters."""
        leaves = [leaf for one in parameters for leaf in leaves_of(one)]
        scored = [
            (sum(max((match for match, _ in matches(one, thing)), default=0.0) for one in leaves), place)
            for place, thing in enumerate(self.things)
        ]
        best = sorted((one for one in scored if one[0] > 0), key=lambda one: (-one[0], one[1]))
        if not best:
            return None
        top = [place for score, place in best if score == best[0][0]]
        return self.things[top[attempt // 2 % len(top)] if attempt % 4 < 3 else rng.choice(best)[1]]

    def value(
        self, tool: str, parameter: Parameter, attempt: int, rng: Random, thing: Thing | None, depth: int = 0
    ) -> Any:
        """Return a value for a parameter; None if there is none."""
        if parameter.kind is Kind.OBJECT and not parameter.enum:
            parts = [one for one in parameter.properties if one.is_required or not attempt % 2]
            if not parameter.properties:
                return self._any_object(tool, rng)
            made = {one.name: self.value(tool, one, attempt, rng, thing, depth + 1) for one in parts}
            return {name: value for name, value in made.items() if value is not None}
        if parameter.kind is Kind.ARRAY and parameter.items is not None:
            proven = self.proven.get((tool, parameter.name), []) if not depth else []
            if proven and attempt % 2:
                return rng.choice(proven)
            num = max(parameter.min_length, 1)
            items = [
                self.value(tool, parameter.items, attempt + n, rng, thing, depth + 1) for n in range(num)
            ]
            return [item for item in items if item is not None]
        return self._leaf(tool, parameter, attempt, rng, thing, is_outer=not depth)

    def _leaf(
        self,
        tool: str,
        parameter: Parameter,
        attempt: int,
        rng: Random,
        thing: Thing | None,
        *,
        is_outer: bool,
    ) -> Any:
        if attempt % 2 and is_outer and (found := self._of_new_column(tool, parameter, rng)) is not None:
            return found
        candidates = list(self.candidates(tool, parameter, thing, rng, is_taught=attempt % 4 == 2))
        refused = self.refused.get((tool, parameter.name), set())
        kept = [value for value in candidates if repr(value) not in refused] or candidates
        if not kept:
            return None
        place = int(len(kept) * rng.random() ** 2) if attempt % 2 else attempt // 2
        return kept[place % len(kept)]

    def _of_new_column(self, tool: str, parameter: Parameter, rng: Random) -> Any:
        """Return a value of a column that was not tried yet in a parameter of which nothing is known."""
        if parameter.enum or format_of(parameter) not in _FREE or ("*", parameter.name) in self.proven:
            return None
        tried = self._tried_columns.setdefault((tool, parameter.name), set())
        for column, cells in sorted(self._columns.items(), key=lambda one: _repeats(one[1])):
            value = fitted(rng.choice(cells), parameter)
            if column not in tried and value is not None and len(str(value)) <= _MAX_CHARS:
                tried.add(column)
                return value
        return None

    def candidates(
        self, tool: str, parameter: Parameter, thing: Thing | None, rng: Random, *, is_taught: bool = False
    ) -> Iterator[Any]:
        """Yield values of a leaf, the most likely first, each once."""
        seen: set[str] = set()
        for value in self._ranked(tool, parameter, thing, rng, is_taught):
            fitting = fitted(value, parameter) if has_form(value, parameter) else None
            if fitting is not None and repr(fitting) not in seen:
                seen.add(repr(fitting))
                yield fitting
                if len(seen) >= _MAX_CANDIDATES:
                    return

    def _ranked(
        self, tool: str, parameter: Parameter, thing: Thing | None, rng: Random, is_taught: bool
    ) -> Iterator[Any]:
        name = parameter.name
        yield from self.user.get(name, ())
        taught = self.taught.get((tool, name), ())
        if is_taught:
            yield from rng.sample(list(taught), len(taught))
        scored = sorted(matches(parameter, thing), key=_score) if thing is not None else []
        yield from (value for match, value in scored if match >= _NAMED_FOR)
        if thing is not None:
            yield from self._of_column(parameter, rng)
        yield from self.proven.get((tool, name), ())[:4]
        yield from self.proven.get(("*", name), ())[:4]
        yield from (value for match, value in scored if 1 <= match < _NAMED_FOR)
        yield from examples_of(parameter)
        yield from taught
        words = set(words_of(name))
        yield from (value for label, value in self.loose if words & set(words_of(label)))
        yield from self._proven_elsewhere(parameter)
        yield drawn(parameter, rng)
        if parameter.kind in (Kind.TEXT, Kind.ANY):
            yield from self._texts(tool, rng)
        scored = [pair for one in self.things for pair in matches(parameter, one) if pair[0] > 0]
        yield from (value for _, value in sorted(scored, key=_score)[:12])
        yield from (value for _, value in self.loose[:6])
        yield drawn(parameter, rng)

    def _proven_elsewhere(self, parameter: Parameter) -> Iterator[Any]:
        """Yield values that other parameters took, those first that the description speaks of."""
        described = {singular(word) for word in words_of(parameter.description[:300])}
        others = [name for tool, name in self.proven if tool == "*" and name != parameter.name]
        for name in sorted(others, key=lambda one: not described & set(map(singular, words_of(one)))):
            yield from self.proven["*", name][:1]

    def _of_column(self, parameter: Parameter, rng: Random) -> Iterator[Any]:
        """Yield a few values of columns that have the name of a parameter."""
        some = rng.sample(self.things, min(40, len(self.things)))
        named = [value for thing in some for match, value in matches(parameter, thing) if match >= _NAMED_FOR]
        yield from named[:4]

    def _any_object(self, tool: str, rng: Random) -> dict[str, Any]:
        """Return an object of one field for a tool that takes any: a field of the things it is named for."""
        words = {singular(word) for word in words_of(tool)}
        own = [thing for thing in self.things if words & set(words_of(thing.noun))] or self.things
        fields = [(name, cell) for thing in own[:20] for name, cell in thing.cells.items() if "." not in name]
        name, cell = rng.choice(fields) if fields else ("note", "")
        return {name: f"{rng.choice(NAMES)} {rng.choice(NAMES)}" if isinstance(cell, str) else cell}

    def _texts(self, tool: str, rng: Random) -> Iterator[str]:
        """Yield names of things, and words of names, first of those that the tool is named for."""
        words = {singular(word) for word in words_of(tool)}
        own = [thing for thing in self.things if words & set(words_of(thing.noun))]
        for thing in rng.sample(own, min(3, len(own))) or rng.sample(self.things, min(3, len(self.things))):
            texts = [cell for cell in thing.cells.values() if isinstance(cell, str) and len(cell) <= 80]
            for text in texts[:3]:
                yield text
                if len(parts := text.split()) > 1:
                    yield parts[0]


def _repeats(cells: Sequence[Scalar]) -> bool:
    """Return whether a column has few values, or one that comes again: it names no things."""
    return len(set(map(str, cells))) < max(2, len(cells))


def _with_new_names(arguments: dict[str, Any], named: Collection[str], rng: Random) -> dict[str, Any]:
    """Give the second of two equal texts a new name, and the same one to parameters named for it."""
    renamed = dict(arguments)
    names = list(arguments)
    for place, name in enumerate(names):
        value = renamed[name]
        if (
            name not in named
            or not isinstance(value, str)
            or value not in [arguments[one] for one in names[:place]]
        ):
            continue
        words = set(words_of(name))
        kin = next((one for one in names if one != name and _is_kin(words, set(words_of(one)))), name)
        new = renamed[kin] if kin != name and renamed[kin] != value else new_name(value, rng)
        renamed[name] = new
        if kin != name and set(words_of(kin)) > words:
            renamed[kin] = new
    return renamed


def _is_kin(one: set[str], other: set[str]) -> bool:
    return len(one & other) > 1 and (one <= other or other <= one)


def new_name(value: str, rng: Random) -> str:
    """Return a name of the same form that nothing has: `People/Ann.md` becomes `People/river.md`."""
    found = re.fullmatch(r"(.*[/\\])?([^/\\]*?)(\.\w{1,5})?", value)
    folder, ending = (found[1] or "", found[3] or "") if found else ("", "")
    return (
        f"{folder}{rng.choice(NAMES)}-{rng.choice(NAMES)}{ending}"
        if ending
        else f"{folder}{' '.join(rng.sample(NAMES, 2))}"
    )


def leaves_of(parameter: Parameter) -> list[Parameter]:
    """Return the parameters inside an object or a list; a plain one itself."""
    if parameter.kind is Kind.ARRAY and parameter.items is not None:
        return leaves_of(parameter.items)
    if parameter.kind is Kind.OBJECT and parameter.properties:
        return [leaf for one in parameter.properties for leaf in leaves_of(one)]
    return [parameter]


def _score(pair: tuple[float, Any]) -> float:
    return -pair[0]


def matches(parameter: Parameter, thing: Thing) -> Iterator[tuple[float, Any]]:
    """Yield the values of a row and its call that a parameter could take, with how well the names agree."""
    wanted = words_of(parameter.name)
    if parameter.kind is Kind.BOOLEAN or not wanted:
        return
    own = words_of(noun_of(" ".join(wanted)))
    noun = words_of(thing.noun)
    described = {singular(word) for word in words_of(parameter.description[:300]) if len(word) > _MIN_WORD}
    for name, value in thing.cells.items():
        words = words_of(name.rpartition(".")[2])
        full = words_of(name)
        if isinstance(value, bool) or fitted(value, parameter) is None:
            continue
        if own in ((*noun, *words), full) and (own != words or full != words):
            yield 4.0, value
        elif own == words:
            yield 3.0, value
        elif noun and own == noun:
            yield 2.0 if isinstance(value, str) else 1.5, value
        elif own[-1:] == words[-1:] or set(own) & {*words, *noun}:
            yield (1.0 if set(own) & {*words} else 0.5), value
        elif described & {*words, *noun}:
            yield 1.0, value
    for name, value in thing.arguments.items():
        if name == parameter.name and fitted(value, parameter) is not None:
            yield 2.5, value
