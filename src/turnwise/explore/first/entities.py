"""The entities of a call: the values that tell it apart, which test tasks must not share with training."""

import json
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from turnwise.explore.first.observation import Observation
from turnwise.explore.first.values import Source, Value
from turnwise.explore.first.wording.names import words_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.types import Tool

_MIN_CALLS = 4
"""With fewer calls of a tool, a value that most of them share may still be one of many."""
_LARGE = 1_000
"""Integers from here on are ids. Smaller ones are amounts, unless their parameter is called an id."""
_ID_WORDS = word_set("id ids key number no code nr sku isbn pid uid")
_MAX_LEAVES = 50


class EntityReader:
    """Finds the entities of calls; it knows the folders of mcp.json and the values that most calls share."""

    def __init__(self, observations: Sequence[Observation], roots: Sequence[str] = ()) -> None:
        self._roots = roots
        self._shared = _shared_values(observations, roots)

    def entities(self, observation: Observation) -> tuple[str, ...]:
        """Return the entities of a call; empty if nothing tells it apart from other calls of its tool.

        A value that most calls of the tool share, such as the only workbook, counts only if there is no
        other. A call with amounts and options alone, such as a conversion, is an entity as a whole.
        """
        return self.of(observation.tool, observation.plain_arguments)

    def of(self, tool: Tool, arguments: Mapping[str, object]) -> tuple[str, ...]:
        """Return the entities of a call with these arguments."""
        parameters = {parameter.name: parameter for parameter in parameters_of(tool)}
        rare: list[str] = []
        common: list[str] = []
        is_varied = False
        for name, value in arguments.items():
            if _is_vocabulary(parameters.get(name), value):
                is_varied = True
                continue
            for leaf in leaves(value):
                entity = _entity(name, leaf, self._roots)
                if entity:
                    is_shared = (tool.name, name, entity) in self._shared
                    (common if is_shared else rare).append(entity)
                elif not isinstance(leaf, str):
                    is_varied = True
        found = rare or common
        if not found and is_varied:
            found = [f"{tool.name} {json.dumps(arguments, sort_keys=True, default=str)}"]
        return tuple(dict.fromkeys(found))


def leaves(value: object) -> Iterator[str | int | float]:
    """Yield the texts and numbers of an argument, those of nested lists and objects too."""
    pending: list[object] = [value]
    num_seen = 0
    while pending and num_seen < _MAX_LEAVES:
        num_seen += 1
        item = pending.pop(0)
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            yield item


def normal_path(text: str, roots: Sequence[str] = ()) -> str:
    """Return one spelling for the spellings of a path: `./a/`, `a` and `/root/a` are the same.

    A text that is no path keeps its words.
    """
    for root in roots:
        if text == root or text.startswith(f"{root}/"):
            text = text[len(root) :].lstrip("/") or "."
            break
    if "/" in text and "://" not in text:
        text = posixpath.normpath(text)
    return " ".join(text.split()).casefold()


def _entity(name: str, leaf: str | int | float, roots: Sequence[str]) -> str:
    """Return a value's entity; empty if it is an amount or the folder that the server works on."""
    if isinstance(leaf, str):
        found = normal_path(leaf, roots)
        return "" if found == "." else found
    is_id = isinstance(leaf, int) and (abs(leaf) >= _LARGE or bool(_ID_WORDS & _words(name)))
    return f"{leaf}" if is_id and abs(leaf) >= _LARGE else f"{name}={leaf}" if is_id else ""


def _words(name: str) -> set[str]:
    return {word.lower() for word in words_of(name)}


def _is_vocabulary(parameter: Parameter | None, value: object) -> bool:
    """Return whether the schema lists the value: an option, no entity."""
    if isinstance(value, bool) or value is None:
        return True
    if parameter is None:
        return False
    listed = [*parameter.enum, *(parameter.items.enum if parameter.items else ())]
    values = value if isinstance(value, list | tuple) else [value]
    return (value is not None and value == parameter.default) or (
        bool(values) and all(item in listed for item in values)
    )


def roots_of(values: Iterable[Value]) -> tuple[str, ...]:
    """Return the paths of mcp.json that lie in no other one, the longest first."""
    found = {
        value.value.rstrip("/")
        for value in values
        if value.source is Source.CONFIG and isinstance(value.value, str) and value.value.startswith("/")
    }
    outer = [path for path in found if not any(path.startswith(f"{other}/") for other in found)]
    return tuple(sorted(outer, key=lambda path: (-len(path), path)))


def _shared_values(
    observations: Sequence[Observation], roots: Sequence[str]
) -> frozenset[tuple[str, str, str]]:
    """Return tool, parameter and entity wherever more than half of the tool's calls have that value."""
    calls: Counter[tuple[str, str]] = Counter()
    uses: Counter[tuple[str, str, str]] = Counter()
    for observation in observations:
        for name, value in observation.arguments.items():
            calls[observation.tool.name, name] += 1
            found = {_entity(name, leaf, roots) for leaf in leaves(value.value)}
            uses.update((observation.tool.name, name, entity) for entity in found)
    return frozenset(
        key for key, count in uses.items() if calls[key[:2]] >= _MIN_CALLS and count * 2 > calls[key[:2]]
    )
