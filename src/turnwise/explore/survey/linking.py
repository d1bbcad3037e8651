"""Which columns a parameter takes its values from: rows agree with the answers to their values."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from turnwise.explore.algebra.columns import is_machine_made
from turnwise.explore.reading.cells import words_of
from turnwise.explore.records import Answer, Call, Cell, ColumnPlace, Link, Relation, Scalar
from turnwise.explore.survey.drawing import absent, fitted, has_form
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.explore.survey.refusals import Refusals, leaves
from turnwise.explore.survey.sessions import Session
from turnwise.explore.survey.walk import Trace

_MIN_SCORE = 0.25
_FIRST_VALUES = 4
_MAX_VALUES = 8
_MAX_CLASSES = 8
"""Classes that are tried for one parameter."""
_MIN_SHARED = 0.3
"""Share of values that two columns of one name must have in common to be one class."""
_MAX_FILTER_VALUES = 12
_LONG_NAME = 8
_MIN_CODES = 4
_MIN_CELL_CHARS, _MIN_TELLING = 3, 2
_COMMON = 0.3
"""A cell that this share of the rows has does not tell one row from another."""


@dataclass(slots=True)
class EntityClass:
    """Columns that name the same things."""

    name: str
    columns: list[ColumnPlace] = field(default_factory=list)
    rows: dict[Scalar, dict[str, Cell]] = field(default_factory=dict)
    """By value: the cells of its rows, by column."""
    sources: dict[Scalar, Call] = field(default_factory=dict)
    is_key: bool = False
    prefix: str = ""
    """The parameter of the source call whose argument stands before the cell."""

    @property
    def values(self) -> list[Scalar]:
        return list(self.rows)


def classes_of(answers: Iterable[Answer]) -> list[EntityClass]:
    """Group the columns of all lists: columns of one name that share values, and rows, are one class."""
    places: dict[ColumnPlace, EntityClass] = {}
    joined: dict[tuple[ColumnPlace, str], EntityClass] = {}
    for answer in answers:
        for relation in answer.relations:
            for column in relation.columns:
                if column.kind in ("text", "integer", "date"):
                    is_key = column.is_key and relation.is_list
                    _add(places, relation, column.name, is_key=is_key)
                    if is_key and column.kind == "text":
                        _add_joined(joined, relation, column.name)
    merged: list[EntityClass] = []
    for one in sorted(places.values(), key=lambda one: -len(one.rows)):
        same = next((other for other in merged if _is_same(other, one)), None)
        if same is None:
            merged.append(one)
        else:
            same.columns += one.columns
            same.is_key |= one.is_key
            for value, row in one.rows.items():
                same.rows[value] = {**row, **same.rows.get(value, {})}
                same.sources.setdefault(value, one.sources[value])
    return [*merged, *joined.values()]


def _add_joined(joined: dict[tuple[ColumnPlace, str], EntityClass], relation: Relation, name: str) -> None:
    """Add the cells behind the path that the call asked for: entries of a folder with their whole paths."""
    place = ColumnPlace(relation.call.tool, relation.path, name)
    for parameter, asked in relation.call.arguments.items():
        if isinstance(asked, str) and "/" in asked:
            class_name = _class_name(relation.noun, f"{name} {parameter}")
            own = joined.setdefault((place, parameter), EntityClass(class_name, [place], prefix=parameter))
            for record in relation.records():
                if isinstance(cell := record.get(name), str):
                    value = f"{asked.rstrip('/')}/{cell}"
                    own.rows[value] = {key: one for key, one in record.items() if key != name}
                    own.sources.setdefault(value, relation.call)


def _add(places: dict[ColumnPlace, EntityClass], relation: Relation, name: str, *, is_key: bool) -> None:
    place = ColumnPlace(relation.call.tool, relation.path, name)
    own = places.setdefault(place, EntityClass(_class_name(relation.noun, name), [place]))
    own.is_key |= is_key
    for record in relation.records():
        if name in record:
            cells: dict[str, Cell] = {key: cell for key, cell in record.items() if key != name}
            own.rows[record[name]] = {**own.rows.get(record[name], {}), **cells}
            own.sources.setdefault(record[name], relation.call)


def _class_name(noun: str, column: str) -> str:
    words = words_of(column)
    return " ".join(dict.fromkeys([*words_of(noun), *words]))


def _is_same(one: EntityClass, other: EntityClass) -> bool:
    shared_names = {value for value in one.rows.keys() & other.rows.keys() if len(str(value)) >= _LONG_NAME}
    if len(shared_names) >= 2 and 2 * len(shared_names) >= min(len(one.rows), len(other.rows)):
        return all(isinstance(value, str) for value in shared_names)  # long texts do not agree by chance
    if words_of(one.columns[0].column)[-1:] != words_of(other.columns[0].column)[-1:]:
        return False
    shared = one.rows.keys() & other.rows.keys()
    if len(shared) < _MIN_SHARED * min(len(one.rows), len(other.rows)) or not shared:
        return False
    agreeing = sum(bool(_distinct(one.rows[value]) & _distinct(other.rows[value])) for value in shared)
    has_rows = any(one.rows[value] for value in shared) and any(other.rows[value] for value in shared)
    return 2 * agreeing >= len(shared) if has_rows else all(isinstance(value, str) for value in shared)


def _distinct(row: Mapping[str, Cell]) -> set[str]:
    return {str(cell) for cell in row.values() if cell is not None and len(str(cell)) > 2}


@dataclass(frozen=True, slots=True)
class _Trial:
    """How the values of one class did in one parameter of one tool."""

    tool: str
    parameter: str
    entity: EntityClass
    score: float
    answers: tuple[tuple[Scalar, Answer], ...]
    is_exact: bool
    """Whether no value was refused that was tried, and an absent one was."""


def _shows_rows(nothing: Answer, accepted: Sequence[tuple[Scalar, Answer]]) -> bool:
    """Return whether an answer to an absent value shows what answers to values of the class show."""
    cells = {cell for relation in nothing.relations for row in relation.rows for cell in row}
    cells -= set(leaves(nothing.call.arguments))
    shown = [{cell for one in answer.relations for row in one.rows for cell in row} for _, answer in accepted]
    return bool(cells) and any(cells & own for own in shown)


class LinkSearch:
    """Tries the values of classes in the parameters of readers, in one session."""

    def __init__(
        self, session: Session, traces: Mapping[str, Trace], refusals: Refusals, answers: Sequence[Answer]
    ) -> None:
        self._session = session
        self._traces = traces
        self._refusals = refusals
        self._known = {answer.call.key: answer for answer in answers}
        self.classes = classes_of(answers)
        self._rng = Random(0)  # noqa: S311  # values that name nothing
        self.replies: list[Answer] = []
        """Answers to calls that were not made before."""
        self.accepted: list[Answer] = []
        """Those of accepted links."""

    async def find(self, readers: Iterable[str]) -> list[Link]:
        """Try all parameters of the readers; accept classes by scores pooled over tools."""
        trials: list[_Trial] = []
        for name in sorted(readers):
            trace = self._traces[name]
            if not trace.successes or trace.is_slow:
                continue
            for parameter in parameters_of(trace.tool):
                leaf = parameter.items if parameter.kind is Kind.ARRAY else parameter
                if leaf is None or leaf.enum or leaf.kind in (Kind.OBJECT, Kind.ARRAY, Kind.BOOLEAN):
                    continue
                for entity in self._plausible(leaf)[:_MAX_CLASSES]:
                    if self._session.budget.is_spent:
                        break
                    if trial := await self._try(trace, parameter, leaf, entity):
                        trials.append(trial)
        links = list(_accepted(trials))
        kept = {(link.tool, link.parameter, link.columns) for link in links}
        for trial in trials:
            if (trial.tool, trial.parameter, _columns(trial.entity)) in kept:
                self.accepted += [answer for _, answer in trial.answers]
        return links

    def _plausible(self, leaf: Parameter) -> list[EntityClass]:
        """Return the classes whose values fit, those that the parameter is named for first."""
        words = set(words_of(leaf.name))
        fitting = [
            one
            for one in self.classes
            if len(one.rows) > 1
            and all(fitted(value, leaf) is not None and has_form(value, leaf) for value in one.values[:3])
        ]
        return sorted(
            fitting,
            key=lambda one: (-len(words & set(words_of(one.name))), not one.is_key, -len(one.rows)),
        )

    async def _try(
        self, trace: Trace, parameter: Parameter, leaf: Parameter, entity: EntityClass
    ) -> _Trial | None:
        base = min(
            (answer.call.arguments for answer in trace.successes),
            key=lambda arguments: (parameter.name not in arguments, len(arguments)),
        )
        accepted: list[tuple[Scalar, Answer]] = []
        num_refused = 0
        for number, value in enumerate(_rarest(entity)[:_MAX_VALUES]):
            if number >= _FIRST_VALUES and not accepted:
                return None
            sent = fitted(value, leaf)
            own = with_source(base, entity.sources[value])
            arguments = {**own, parameter.name: [sent] if parameter.kind is Kind.ARRAY else sent}
            answer = await self._answer(Call(trace.tool.server, trace.tool.name, arguments))
            is_refused = self._refusals.is_refused(answer)
            num_refused += is_refused
            if not is_refused and not answer.is_empty:
                accepted.append((value, answer))
        if len({answer.text for _, answer in accepted}) < 2:
            return None
        nothing = absent(parameter, self._rng)
        is_any = is_exact = False
        if nothing is not None:
            answer = await self._answer(
                Call(trace.tool.server, trace.tool.name, {**base, parameter.name: nothing})
            )
            is_exact = answer.is_error and not num_refused
            self._refusals.learn(answer)
            is_any = not answer.is_error and not answer.is_empty and _shows_rows(answer, accepted)
        score = 0.0 if is_any else _agreement(entity, accepted)
        return _Trial(trace.tool.name, parameter.name, entity, score, tuple(accepted), is_exact)

    async def _answer(self, call: Call) -> Answer:
        if call.key not in self._known:
            self._known[call.key] = await self._session.call(call)
            self.replies.append(self._known[call.key])
        return self._known[call.key]


def with_source(arguments: Mapping[str, Any], source: Call) -> dict[str, Any]:
    """Return arguments with those of the call that showed a value: keys of two parts belong together."""
    return {**arguments, **{name: value for name, value in source.arguments.items() if name in arguments}}


def _rarest(entity: EntityClass) -> list[Scalar]:
    """Return the values, those whose rows say the most and that are spread over the class first."""
    values = [value for value in entity.values if not isinstance(value, bool) and value != ""]
    step = max(1, len(values) // _MAX_VALUES)
    return [*values[::step], *(value for place, value in enumerate(values) if place % step)]


def _agreement(entity: EntityClass, accepted: Sequence[tuple[Scalar, Answer]]) -> float:
    """Return how much more of its row an answer shows than the answers to other values do."""
    telling = _telling(entity)
    scores = []
    for value, answer in accepted:
        cells = _distinct(entity.rows[value]) & telling
        cells -= {str(leaf) for leaf in leaves(answer.call.arguments)}
        if cells:
            own = _share(cells, answer)
            others = [_share(cells, other) for place, other in accepted if place != value]
            scores.append(own - sum(others) / max(1, len(others)))
    mean = sum(scores) / len(scores) if scores else 0.0
    return max(mean, _best_column(entity, accepted))


def _best_column(entity: EntityClass, accepted: Sequence[tuple[Scalar, Answer]]) -> float:
    """Return the same for the cells of one column: a wide row is rarely shown as a whole."""
    best = 0.0
    for column in {name for value, _ in accepted for name in entity.rows[value]}:
        cells = {value: str(entity.rows[value].get(column) or "") for value, _ in accepted}
        telling = {value: cell for value, cell in cells.items() if len(cell) > _MIN_CELL_CHARS}
        if len(set(telling.values())) < _MIN_TELLING:
            continue
        hits = misses = num_others = 0
        for value, answer in accepted:
            sent = {str(leaf) for leaf in leaves(answer.call.arguments)}
            for other, cell in telling.items():
                is_in = cell in answer.text and cell not in sent
                if other == value:
                    hits += is_in
                elif cell != telling.get(value):
                    misses += is_in
                    num_others += 1
        if hits >= _MIN_TELLING:
            best = max(best, hits / len(telling) - misses / max(1, num_others))
    return best


def _share(cells: set[str], answer: Answer) -> float:
    return sum(cell in answer.text for cell in cells) / len(cells)


def _accepted(trials: Sequence[_Trial]) -> Iterator[Link]:
    """Yield links: by parameter name the class with the highest mean score; filters by the rows they show."""
    pooled: dict[tuple[str, int], list[float]] = {}
    for trial in trials:
        pooled.setdefault((trial.parameter, id(trial.entity)), []).append(trial.score)
    best: dict[str, tuple[float, int]] = {}
    for (parameter, entity), scores in pooled.items():
        best[parameter] = max(best.get(parameter, (0.0, 0)), (sum(scores) / len(scores), entity))
    for trial in trials:
        score, entity = best[trial.parameter]
        if shown := _shown(trial):
            yield _link(trial, "filter", shown)
        elif (
            (score >= _MIN_SCORE and entity == id(trial.entity))
            or (not _telling(trial.entity) and _names_agree(trial) and len(trial.answers) >= 2)
            or (trial.is_exact and _are_codes(trial.entity))
        ):
            yield _link(trial, "key", "")


def _telling(entity: EntityClass) -> set[str]:
    """Return the cells that few rows have."""
    counts = Counter(cell for row in entity.rows.values() for cell in _distinct(row))
    return {cell for cell, num in counts.items() if num <= max(1.0, _COMMON * len(entity.rows))}


def _are_codes(entity: EntityClass) -> bool:
    """Return whether the values are long codes: nothing else is accepted in their place by chance."""
    texts = [value for value in entity.rows if isinstance(value, str) and len(value) >= _LONG_NAME]
    return len(texts) == len(entity.rows) >= _MIN_CODES and all(map(is_machine_made, texts))


def _names_agree(trial: _Trial) -> bool:
    is_text = all(isinstance(value, str) and len(value) > 2 for value, _ in trial.answers)
    return is_text and bool(set(words_of(trial.parameter)) & set(words_of(trial.entity.name)))


def _shown(trial: _Trial) -> str:
    """Return the column of the tool's own answers that has the value in every row; empty if there is none."""
    found: Counter[str] = Counter()
    for value, answer in trial.answers:
        for relation in answer.relations:
            if not relation.is_list:
                continue
            for column in relation.columns:
                if set(relation.values(column.name)) == {value}:
                    found[column.name] += 1
    name, num = found.most_common(1)[0] if found else ("", 0)
    return name if num >= max(2, len(trial.answers) - 1) else ""


def _columns(entity: EntityClass) -> tuple[ColumnPlace, ...]:
    return tuple(sorted(entity.columns, key=lambda place: (len(place.path), place.tool)))


def _link(trial: _Trial, kind: str, shown: str) -> Link:
    columns = _columns(trial.entity)
    link = Link(
        trial.entity.name,
        columns,
        trial.tool,
        trial.parameter,
        "key",
        prefix=trial.entity.prefix,
        shown=shown,
    )
    return replace(link, kind="filter") if kind == "filter" else link


def complete_lists(answers: Iterable[Answer], classes: Sequence[EntityClass]) -> frozenset[tuple[str, Any]]:
    """Return the lists that hold every value of a key class that was seen anywhere."""
    by_place = {place: entity for entity in classes for place in entity.columns if entity.is_key}
    found = set()
    for answer in answers:
        for relation in answer.relations:
            keys = [column.name for column in relation.columns if column.is_key]
            entities = [by_place.get(ColumnPlace(relation.call.tool, relation.path, name)) for name in keys]
            whole = [
                entity is not None and entity.rows.keys() <= set(relation.values(name))
                for name, entity in zip(keys, entities, strict=True)
            ]
            if relation.is_list and whole and all(whole):
                found.add((answer.call.key, relation.path))
    return frozenset(found)
