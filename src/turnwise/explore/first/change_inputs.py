"""Arguments for tools that change something: new names and texts, and things that exist."""

import posixpath
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.explore.first.drawn_texts import DrawnTexts, path_like
from turnwise.explore.first.drawn_values import drawn_value
from turnwise.explore.first.parameter_roles import Role, core_name, creates, names_path, role_of
from turnwise.explore.first.subjects import Subject
from turnwise.explore.first.tool_verbs import words_of
from turnwise.explore.first.values import ValueStore, value_key
from turnwise.explore.first.wording.word_set import word_set
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Tool

_MAX_OPTIONAL = 8
_NUM_CANDIDATES = 6
_FOLDERS = word_set("directory folder dir")
_FREE_KEYS = ("status", "topic", "owner", "place")
"""Keys for an object whose schema names none."""
_ONE_WORD = word_set("branch slug tag tags ref handle username table column identifier key")
"""Names of these may have no space in them."""


@dataclass(slots=True)
class ChangeInput:
    """A call to try, what it should add, and what may be gone after it."""

    arguments: dict[str, Any] = field(default_factory=dict)
    drawn: list[str] = field(default_factory=list)
    """Texts that nobody has used before."""
    contents: list[str] = field(default_factory=list)
    """Those of `drawn` that are written, rather than names."""
    existing: list[str] = field(default_factory=list)
    """Texts that stand for what is changed."""
    quoted: list[str] = field(default_factory=list)
    """Texts that stand in what is changed."""
    context: str = ""
    """Where the things that exist were found."""

    @property
    def key(self) -> str:
        return value_key(self.arguments)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Draws the arguments for one tool that changes something."""

    tool: Tool
    subjects: Sequence[Subject]
    common: str
    """The parameter by which most readers of the server name a thing, for `source` and the like."""
    vocabulary: Mapping[str, Sequence[Any]]
    """The values that answers have under a name."""
    store: ValueStore
    texts: DrawnTexts
    chance: random.Random

    def stages(self) -> Iterator[Iterator[ChangeInput]]:
        """Yield ways to fill the parameters, the most likely first; every way yields calls to try."""
        parameters = parameters_of(self.tool)
        required = [one for one in parameters if one.is_required]
        optional = [one for one in parameters if not one.is_required][:_MAX_OPTIONAL]
        ways = (True, False) if creates(self.tool) else (False, True)
        if required:
            for is_new in ways:
                yield self._calls(required, is_new=is_new)
        texts = [one for one in optional if one.kind is Kind.TEXT and not one.enum]
        for chosen in ([texts] if len(texts) > 1 else []) + [[one] for one in optional]:
            for is_new in ways[: 1 if required else 2]:
                yield self._calls([*required, *chosen], is_new=is_new)

    def _calls(self, parameters: Sequence[Parameter], *, is_new: bool) -> Iterator[ChangeInput]:
        roles = {one.name: role_of(one, self.tool, is_new=is_new) for one in parameters}
        needs_subject = [one for one in parameters if self._takes_existing(one, is_new=is_new)]
        seen: set[str] = set()
        for number, subject in enumerate(self._best_subjects(needs_subject)):
            filling = _Filling(self, subject, number, is_new=is_new)
            try:
                made = filling.fill(parameters, roles)
            except LookupError:
                continue
            # A thing may be known by a short path and by a long one.
            key = value_key([posixpath.basename(text) or text for text in made.existing])
            if key not in seen or not needs_subject:
                seen.add(key)
                yield made

    def _takes_existing(self, parameter: Parameter, *, is_new: bool) -> bool:
        if parameter.kind is Kind.ARRAY and parameter.items is not None and parameter.items.properties:
            return any(self._takes_existing(one, is_new=is_new) for one in parameter.items.properties)
        if parameter.kind is Kind.OBJECT and parameter.properties:
            return any(self._takes_existing(one, is_new=is_new) for one in parameter.properties)
        return role_of(parameter, self.tool, is_new=is_new) in (Role.EXISTING, Role.OLD_TEXT)

    def _best_subjects(self, parameters: Sequence[Parameter]) -> list[Subject]:
        """Return the subjects, those first that have values for most parameters and fit the tool's topic."""
        topic = set(words_of(self.tool.server_tool))
        flat = list(_flat(parameters))

        def score(subject: Subject) -> tuple[int, int]:
            known = [one for one in flat if self.known(subject, one) is not None]
            is_quotable = bool(subject.lines)
            wants_text = any(role_of(one, self.tool, is_new=False) is Role.OLD_TEXT for one in flat)
            return len(known) + (wants_text and is_quotable), len(topic & set(subject.topic))

        nobody = Subject({}, "", ())
        if not flat:
            return [*self.subjects[:_NUM_CANDIDATES], *[nobody] * _NUM_CANDIDATES]
        ordered = sorted(self.subjects, key=score, reverse=True)
        return [*_spread(ordered, score), nobody]

    def known(self, subject: Subject, parameter: Parameter) -> Any:
        """Return the subject's value for a parameter in its type; None if it has none."""
        name = core_name(parameter.name) or self.common
        found = subject.value_for(parameter.name)
        found = subject.value_for(name) if found is None else found
        if parameter.kind is Kind.ARRAY:
            items = found if isinstance(found, list) else [] if found is None else [found]
            is_fit = parameter.items is None or (items and parameter.items.accepts(items[0]))
            return items[:1] if items and is_fit else None
        if isinstance(found, list):
            found = found[0] if found else None
        if parameter.kind is Kind.TEXT and isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        return found if found is not None and parameter.accepts(found) else None


def _flat(parameters: Sequence[Parameter]) -> Iterator[Parameter]:
    for one in parameters:
        inner = one.items.properties if one.items is not None else one.properties
        if inner:
            yield from _flat(inner)
        else:
            yield one


def _spread(ordered: Sequence[Subject], score: Any) -> list[Subject]:
    """Return the subjects by falling score, those of different readers in turns where the score is equal."""
    groups: dict[Any, dict[str, list[Subject]]] = {}
    for subject in ordered:
        groups.setdefault(score(subject), {}).setdefault(subject.context, []).append(subject)
    found: list[Subject] = []
    for of_context in groups.values():
        longest = max(map(len, of_context.values()))
        for place in range(longest):
            found.extend(group[place] for group in of_context.values() if place < len(group))
    return found


class _Filling:
    """Fills the parameters of one call, for one subject."""

    def __init__(self, inputs: Inputs, subject: Subject, number: int, *, is_new: bool) -> None:
        self._inputs = inputs
        self._subject = subject
        self._number = number
        self._is_new = is_new
        self._is_mixed = False
        self._made = ChangeInput(context=subject.context)

    def fill(self, parameters: Sequence[Parameter], roles: Mapping[str, Role]) -> ChangeInput:
        """Return the call; LookupError if nothing is known for one of the parameters."""
        made = self._made
        flat = [role_of(one, self._inputs.tool, is_new=self._is_new) for one in _flat(parameters)]
        # What is created must differ from what is there: parts of several things make a new one.
        self._is_mixed = self._is_new and not {Role.NEW, Role.CONTENT} & set(flat)
        repeated = [one for one in parameters if roles[one.name] is Role.CONFIRMATION]
        # Contents first: a file is named after what it holds.
        ordered = sorted(parameters, key=lambda one: roles[one.name] is not Role.CONTENT)
        filled = {one.name: self._value(one, one.name) for one in ordered if one not in repeated}
        made.arguments.update((one.name, filled[one.name]) for one in parameters if one.name in filled)
        for one in repeated:
            wanted = words_of(one.name)
            namesake = next((name for name in made.arguments if words_of(name) == wanted[1:]), "")
            if not namesake:
                raise LookupError(one.name)
            made.arguments[one.name] = made.arguments[namesake]
        return made

    def _value(self, parameter: Parameter, name: str) -> Any:
        if parameter.kind is Kind.ARRAY and parameter.items is not None:
            return self._list(parameter, parameter.items, name)
        if parameter.kind is Kind.OBJECT:
            return self._object(parameter)
        fill = {
            Role.CONTENT: self._content,
            Role.NEW: self._new,
            Role.OLD_TEXT: self._quoted,
            Role.EXISTING: self._existing,
            Role.CONFIRMATION: self._existing,
            Role.OPTION: self._option,
        }
        return fill[role_of(parameter, self._inputs.tool, is_new=self._is_new)](parameter)

    def _list(self, parameter: Parameter, items: Parameter, name: str) -> Any:
        role = role_of(parameter, self._inputs.tool, is_new=self._is_new)
        if items.properties or items.kind is Kind.ARRAY or role is not Role.EXISTING:
            one = self._value(items, name) if items.properties else self._item(parameter, items, role)
            return [one] * max(1, parameter.min_length)
        return self._existing(parameter)

    def _item(self, parameter: Parameter, items: Parameter, role: Role) -> Any:
        if items.kind is Kind.TEXT and role is Role.CONTENT:
            return self._content(items)
        if items.kind in (Kind.TEXT, Kind.ANY) and not items.enum:
            return self._new(parameter)
        return self._value(items, parameter.name)

    def _object(self, parameter: Parameter) -> dict[str, Any]:
        needed = [one for one in parameter.properties if one.is_required] or list(parameter.properties)
        if needed:
            return {one.name: self._value(one, one.name) for one in needed}
        key = _FREE_KEYS[self._number % len(_FREE_KEYS)]
        return {key: self._draw(is_content=False)}

    def _content(self, parameter: Parameter) -> str:
        return self._checked(parameter, self._draw(is_content=True))

    def _draw(self, *, is_content: bool) -> str:
        drawn = self._inputs.texts.sentence() if is_content else self._inputs.texts.name()
        self._made.drawn.append(drawn)
        if is_content:
            self._made.contents.append(drawn)
        return drawn

    def _new(self, parameter: Parameter) -> str:
        inputs = self._inputs
        known = inputs.known(self._subject, parameter)
        known = known[0] if isinstance(known, list) else known
        if names_path(parameter) or (isinstance(known, str) and "/" in known):
            is_folder = bool(set(words_of(inputs.tool.server_tool)) & _FOLDERS)
            known = known or self._any_path(parameter)
            path = path_like(known, inputs.texts, is_folder=is_folder, is_prose=bool(self._made.contents))
            self._made.drawn.append(posixpath.basename(path))
            return path
        words = set(words_of(parameter.name))
        name = inputs.texts.name()
        if words & _ONE_WORD or (self._number % 2 and not self._subject.cells):
            name = name.replace(" ", "-")
        self._made.drawn.append(name)
        return self._checked(parameter, name)

    def _any_path(self, parameter: Parameter) -> str:
        found = next((one for one in self._inputs.store.candidates(parameter, limit=1)), None)
        return found.value if found is not None and isinstance(found.value, str) else ""

    def _quoted(self, parameter: Parameter) -> str:
        lines = self._subject.lines
        if not lines:
            raise LookupError(parameter.name)
        line = lines[self._number % len(lines)]
        self._made.quoted.append(line)
        return self._checked(parameter, line)

    def _existing(self, parameter: Parameter) -> Any:
        value = None if self._is_mixed else self._inputs.known(self._subject, parameter)
        if value is None:
            value = self._of_vocabulary(parameter)
        if value is None:
            found = self._inputs.store.candidates(parameter, limit=_NUM_CANDIDATES)
            if not found:
                raise LookupError(parameter.name)
            value = found[self._number % len(found)].value
        texts = value if isinstance(value, list) else [value]
        self._made.existing.extend(text for text in texts if isinstance(text, str))
        return value

    def _of_vocabulary(self, parameter: Parameter) -> Any:
        """Return a value that answers have under this name, other than those that were used."""
        words = self._inputs.vocabulary.get(parameter.name, ())
        used = self._made.existing
        fit = [one for one in words if one not in used and parameter.accepts(one)]
        return fit[(self._number + len(used)) % len(fit)] if fit else None

    def _option(self, parameter: Parameter) -> Any:
        if parameter.enum:
            return parameter.enum[self._number % len(parameter.enum)]
        if parameter.kind is Kind.BOOLEAN:
            return parameter.default is not True
        return drawn_value(parameter, self._inputs.chance)

    def _checked(self, parameter: Parameter, text: str) -> str:
        if parameter.kind is Kind.TEXT and not parameter.accepts(text):
            raise LookupError(parameter.name)
        return text
