"""Things that exist on a server, as its readers show them: what a change can be made to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.explore.first.document import ITEM, Document
from turnwise.explore.first.name_words import name_fit, topic_words
from turnwise.explore.first.observation import Observation

MAX_SUBJECTS = 400
_MAX_ROWS = 12
_MAX_OF_TOOL = 24
_MAX_LINES = 40
_PROSE_SPACES = 3
_LINE_CHARS = range(6, 80)
"""A line that can be quoted in a question, and is not in every text."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Values that belong together: a row of a list, or the arguments of a call and what it answered."""

    cells: Mapping[str, Any]
    """By name. A list inside a row is a list."""
    context: str
    """The table or the tool that they were found in."""
    topic: tuple[str, ...]
    """The words of the reader's name that say what it reads."""
    lines: tuple[str, ...] = field(default=())
    """Lines of the text that the call answered with: each is there once."""

    def value_for(self, name: str) -> Any:
        """Return the value that fits a parameter of this name best; None if none does."""
        if name in self.cells:
            return self.cells[name]
        fits = {found: name_fit(name, found, self.context) for found in self.cells}
        best = max(fits, key=lambda found: fits[found], default="")
        return self.cells[best] if best and fits[best] >= 2 else None

    def texts(self) -> Iterator[str]:
        """Yield the texts that may name this thing in a list."""
        for value in self.cells.values():
            if isinstance(value, str):
                yield value


def subjects_of(observations: Sequence[Observation]) -> list[Subject]:
    """Return what the answers show, calls with arguments before rows of lists."""
    found: list[Subject] = []
    num_of_tool: dict[str, int] = {}
    for observation in observations:
        num_of_tool[observation.tool.name] = num_of_tool.get(observation.tool.name, 0) + 1
        if observation.arguments and num_of_tool[observation.tool.name] <= _MAX_OF_TOOL:
            found.append(_called(observation))
    for observation in observations:
        found.extend(_rows(observation))
    return found[:MAX_SUBJECTS]


def vocabulary_of(subjects: Sequence[Subject]) -> dict[str, list[Any]]:
    """Return the different values that the subjects have under every name."""
    found: dict[str, dict[str, Any]] = {}
    for subject in subjects:
        for name, value in subject.cells.items():
            if isinstance(value, str | int):
                found.setdefault(name, {}).setdefault(str(value), value)
    return {name: list(values.values()) for name, values in found.items()}


def _called(observation: Observation) -> Subject:
    topic = topic_words(observation.tool.server_tool)
    fields = {one.name: one.value for one in observation.document.fields if one.name}
    cells = {**fields, **observation.plain_arguments}
    return Subject(cells, observation.tool.server_tool, topic, tuple(_lines(observation.document)))


def _rows(observation: Observation) -> Iterator[Subject]:
    topic = topic_words(observation.tool.server_tool)
    for table in observation.document.tables:
        if table.columns == (ITEM,):
            name = table.name or "_".join(topic)
            for row in table.rows[:_MAX_ROWS]:
                yield Subject({name: row[ITEM]}, observation.tool.server_tool, topic)
            continue
        for number, row in enumerate(table.rows[:_MAX_ROWS]):
            inner = {
                other.name: [cell[ITEM] for cell in other.rows]
                for other in observation.document.tables
                if other.path[:-1] == (*table.path, number) and other.columns == (ITEM,)
            }
            yield Subject({**row, **inner}, table.name or observation.tool.server_tool, topic)


def _lines(document: Document) -> Iterator[str]:
    """Yield lines of a text that a person could quote: of the answer, or of a long text in it."""
    longest = max((one.value for one in document.fields if isinstance(one.value, str)), key=len, default="")
    is_data = document.text.lstrip()[:1] in ("{", "[")
    text = longest if is_data else document.text
    lines = [line.strip() for line in text.splitlines()[: 4 * _MAX_LINES]]
    for line in sorted(dict.fromkeys(lines[:_MAX_LINES]), key=lambda line: not _is_prose(line)):
        is_plain = line.isprintable() and any(map(str.isalpha, line)) and not set(line) & set('“”`"')
        is_record = "," in line.replace(", ", "")
        if len(line) in _LINE_CHARS and is_plain and not is_record and text.count(line) == 1:
            yield line


def _is_prose(line: str) -> bool:
    """Return whether a line is a sentence, rather than a heading or a record."""
    return line[:1].isalpha() and line.count(" ") >= _PROSE_SPACES and ":" not in line
