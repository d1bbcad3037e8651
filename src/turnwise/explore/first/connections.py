"""Where the answer of one call holds an argument of another: the links that chains follow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.exploration import Link
from turnwise.explore.first.document import Document, Scalar
from turnwise.explore.first.entities import normal_path
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.tool_verbs import words_of
from turnwise.explore.first.values import Source, Value
from turnwise.explore.first.wording.word_set import word_set
from turnwise.explore.survey.parameters import parameters_of

_MAX_SCALARS = 500
"""Values of one answer that are compared with arguments."""
_MAX_SOURCES = 12
"""Answers that one argument is connected with."""
_MIN_CHARS = 2
_MIN_VALUES = 2
"""Different values that must agree for a link between fields whose names do not."""
_ANY_NUMBER = word_set("value values number amount num count total result results input output x y a b n")
"""Names that every number has: two tools that use one of them may mean different things."""

_NO_SOURCE = word_set("error errors err message messages msg status success ok warning warnings")
"""Fields that say how a call went, and nothing that another call needs."""

LinkKey = tuple[str, str, str, str]
"""Source tool, field, target tool, parameter."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An argument of one observation that a field of another observation's answer holds."""

    source: Observation
    field: str
    value: str
    """The field's value as text."""
    target: Observation
    parameter: str
    prefix: str = ""
    """What the argument has before the value: the folder that the source was asked for, with a slash."""

    @property
    def link(self) -> LinkKey:
        return (self.source.tool.name, self.field, self.target.tool.name, self.parameter)


def connections_of(observations: Sequence[Observation], roots: Sequence[str] = ()) -> list[Connection]:
    """Return the connections between different tools that are unlikely to be chance."""
    index: dict[str, list[tuple[Observation, str]]] = {}
    for observation in observations:
        for name, value in dict.fromkeys(_scalars(observation.document)):
            if not name or _NO_SOURCE & set(words_of(name)):
                continue
            index.setdefault(value, []).append((observation, name))
    found = [
        connection
        for target in observations
        for name, value in target.arguments.items()
        if not _is_option(target, name)
        for connection in list(_connected(target, name, value, index, roots))[:_MAX_SOURCES]
    ]
    values: dict[LinkKey, set[str]] = {}
    for connection in found:
        values.setdefault(connection.link, set()).add(connection.value)
    return [one for one in found if _is_telling(one, len(values[one.link]))]


def links_of(connections: Sequence[Connection]) -> Iterator[Link]:
    """Yield the fields that feed parameters, those with the most calls first."""
    calls: dict[LinkKey, set[int]] = {}
    for connection in connections:
        calls.setdefault(connection.link, set()).add(connection.target.number)
    for key, numbers in sorted(calls.items(), key=lambda item: (-len(item[1]), item[0])):
        yield Link(*key, num_calls=len(numbers))


def _scalars(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a document's values."""
    num_left = _MAX_SCALARS
    for table in document.tables:
        for row in table.rows:
            for name, value in row.items():
                num_left -= 1
                if num_left < 0:
                    return
                if (text := _text(value)) and len(text) >= _MIN_CHARS:
                    yield name, text
    for field in document.fields[: max(num_left, 0)]:
        if (text := _text(field.value)) and len(text) >= _MIN_CHARS:
            yield field.name, text


def _text(value: Scalar) -> str:
    return "" if isinstance(value, bool) else str(value)


def _is_option(target: Observation, name: str) -> bool:
    return any(one.name == name and one.enum for one in parameters_of(target.tool))


def _connected(
    target: Observation,
    name: str,
    value: Value,
    index: Mapping[str, list[tuple[Observation, str]]],
    roots: Sequence[str],
) -> Iterator[Connection]:
    if isinstance(value.value, bool) or not isinstance(value.value, str | int | float):
        return
    text = str(value.value)
    for source, field in index.get(text, ()):
        if source.tool.name != target.tool.name:
            yield Connection(source, field, text, target, name)
    folder, slash, last = text.rpartition("/")
    if not slash or not last:
        return
    for source, field in index.get(last, ()):
        asked = {normal_path(str(given), roots) for given in source.plain_arguments.values()}
        if source.tool.name != target.tool.name and normal_path(folder, roots) in asked:
            yield Connection(source, field, last, target, name, prefix=f"{folder}/")


def _is_telling(connection: Connection, num_values: int) -> bool:
    """Return whether a connection says something: any number fits a number, unless the names agree."""
    value = connection.target.arguments[connection.parameter]
    shared = set(words_of(connection.field)) & set(words_of(connection.parameter)) - _ANY_NUMBER
    if not isinstance(value.value, str):
        return bool(shared)
    is_taken = value.source is Source.ANSWER and value.observation == connection.source.number
    return bool(shared) or is_taken or num_values >= _MIN_VALUES
