"""Find changes that tools make: call them in throwaway sessions, and look for a call that shows it."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.explore.first.caller import ServerCaller, Session, SessionLost
from turnwise.explore.first.change import Change
from turnwise.explore.first.change_evidence import Seen, probes_for
from turnwise.explore.first.change_inputs import ChangeInput, Inputs
from turnwise.explore.first.drawn_texts import DrawnTexts
from turnwise.explore.first.error_lessons import lessons_of
from turnwise.explore.first.name_words import name_fit
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.parameter_roles import core_name
from turnwise.explore.first.subjects import Subject, subjects_of, vocabulary_of
from turnwise.explore.first.survey import Survey, ToolRecord
from turnwise.explore.first.tool_verbs import presumes_reading
from turnwise.explore.first.values import ValueStore, value_key
from turnwise.explore.first.wording import fits_in_question
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Tool

_NUM_CHANGES = 5
"""Changes looked for per tool."""
_NUM_FIRST = 2
"""Changes looked for before the next tool has its turn."""
_MANY_TOOLS = 12
_NUM_OF_MANY = 3
"""Changes looked for per tool of a server with many."""
_NUM_TRIES = 24
"""Calls of a tool that may fail or show nothing."""
_NUM_VAIN = 5
"""Calls of one way to fill the parameters that may fail or show nothing."""
_NUM_WITNESSES = 24
_NUM_OF_READER = 3
_MAX_WRONG = 2
"""Failures with things of one reader after which no more of them are tried: they are of another kind."""


@dataclass(frozen=True, slots=True)
class _Server:
    """What is known about a server before anything is changed."""

    readers: tuple[ToolRecord, ...]
    subjects: tuple[Subject, ...]
    vocabulary: Mapping[str, Sequence[Any]]
    common: str
    num_changes: int
    """Changes looked for per tool."""
    originals: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    """Answers of reading calls in the session that is kept: they hold until the next change."""

    session: Session
    originals: dict[str, str]
    """Answers of sessions in which nothing was changed."""
    is_fresh: bool = True
    known: dict[str, str] = field(default_factory=dict)

    async def text(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        key = f"{tool.name} {value_key(arguments)}"
        if key not in self.known:
            reply = await self.session.call(tool, arguments)
            self.known[key] = "" if reply.document is None else reply.document.text
            if self.is_fresh:
                self.originals[key] = self.known[key]
        return self.known[key]

    def original(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        return self.originals.get(f"{tool.name} {value_key(arguments)}", "")

    def forget(self) -> None:
        """Forget the answers after a change."""
        self.is_fresh = False
        self.known.clear()


async def find_changes(
    caller: ServerCaller, survey: Survey, writers: Sequence[str], seed: int
) -> list[Change]:
    """Return changes of one server, each with a probe that failed before and held after."""
    if not writers:
        return []
    server = _known_of(caller.server, survey, writers)
    store = ValueStore(survey.store)  # of its own: servers are searched at the same time
    searches = []
    for name in writers:
        chance = random.Random(f"{seed}/change/{name}")  # noqa: S311  # tasks, not secrets
        searches.append(_Search(survey.records[name], caller, store, server, chance))
    # Every tool gets its turn before any is tried at length: time may run out.
    for num_changes in (_NUM_FIRST, server.num_changes):
        for search in searches:
            await search.run(num_changes)
    return [change for search in searches for change in search.found]


def _known_of(name: str, survey: Survey, writers: Sequence[str]) -> _Server:
    readers = tuple(
        record
        for record in survey.records.values()
        if record.tool.server == name and record.observations and record.tool.name not in writers
    )
    observations = [seen for record in readers for seen in record.observations]
    named = Counter(
        one.name
        for record in readers
        for one in parameters_of(record.tool)
        if one.kind is Kind.TEXT and one.is_required
    )
    common = named.most_common(1)[0][0] if named else ""
    subjects = tuple(subjects_of(observations))
    num_changes = _NUM_OF_MANY if len(writers) > _MANY_TOOLS else _NUM_CHANGES
    return _Server(readers, subjects, vocabulary_of(subjects), common, num_changes)


class _Search:
    """The search for changes that one tool makes."""

    def __init__(
        self,
        record: ToolRecord,
        caller: ServerCaller,
        store: ValueStore,
        server: _Server,
        chance: random.Random,
    ) -> None:
        self._record = record
        self._caller = caller
        self._store = store
        self._server = server
        self._inputs = Inputs(
            record.tool,
            server.subjects,
            server.common,
            server.vocabulary,
            store,
            DrawnTexts(chance),
            chance,
        )
        self._stages = self._inputs.stages()
        self._stage = next(self._stages, None)
        self.found: list[Change] = []
        self._reading: _Reading | None = None
        self._num_tries = 0
        self._num_vain = 0
        self._num_wrong: Counter[str] = Counter()
        self._telling: set[str] = set()
        """Readers whose answers a call of this tool has changed."""

    async def run(self, num_changes: int) -> None:
        """Try the ways to fill the parameters in turn, until one works and enough changes are found."""
        while self._stage is not None and not self._is_over(num_changes):
            for made in self._stage:
                is_wrong = made.context and self._num_wrong[made.context] >= _MAX_WRONG
                if is_wrong or not fits_in_question(made.arguments):
                    continue
                await self._count(made)
                if self._num_vain >= _NUM_VAIN or self._is_over(num_changes):
                    break
            else:
                self._num_vain = _NUM_VAIN
            if self._num_vain >= _NUM_VAIN:
                self._stage = None if self.found else next(self._stages, None)
                self._num_vain = 0
                self._num_wrong.clear()
        self._reading = None
        await self._caller.end_session()  # the next tool finds the server as it was

    def _is_over(self, num_changes: int) -> bool:
        is_enough = len(self.found) >= num_changes or self._num_tries >= _NUM_TRIES + len(self.found)
        return is_enough or self._caller.budget.is_spent or bool(self._record.needs)

    async def _count(self, made: ChangeInput) -> None:
        """Try a change, and keep count of what works."""
        self._num_tries += 1
        change = await self._try(made)
        if change is None:
            self._num_vain += 1
            self._num_wrong[made.context] += 1
        else:
            self._num_vain = 0
            self._num_wrong[made.context] = -_NUM_CHANGES
            self.found.append(change)

    async def _try(self, made: ChangeInput) -> Change | None:
        """Make the change; None if it fails, or if nothing shows it."""
        record = self._record
        record.num_calls += 1
        try:
            reading = await self._session()
            readers = [
                one for one in self._server.readers if not self.found or one.tool.name in self._telling
            ]
            calls = list(_witnesses(readers, made))
            before = [await reading.text(tool, arguments) for tool, arguments in calls]
            reply = await reading.session.call(record.tool, made.arguments)
            if reply.document is None and not reply.is_empty:
                self._learn(reply.error)
                return None
            record.num_answers += 1
            reading.forget()
            after = [await reading.text(tool, arguments) for tool, arguments in calls]
        except SessionLost as error:
            record.last_error = str(error)
            self._reading = None
            await self._caller.end_session()
            return None
        seen = [
            Seen(*call, old, new, reading.original(*call))
            for call, old, new in zip(calls, before, after, strict=True)
        ]
        self._telling |= {one.tool.name for one in seen if one.before != one.after}
        probes = probes_for(made, seen, is_expected=not presumes_reading(record.tool))
        if not probes:
            return None
        entities = tuple((*made.drawn, *made.existing, made.key)[:1])
        shown = {probe.contains for probe in probes}
        content = next((text for text in made.contents if text in shown), "")
        return Change(record.tool, made.arguments, probes, entities, content)

    async def _session(self) -> _Reading:
        if self._reading is None:
            self._reading = _Reading(await self._caller.kept_session(), self._server.originals)
        return self._reading

    def _learn(self, error: str) -> None:
        record = self._record
        record.last_error = error
        lessons = lessons_of(error, record.tool)
        record.needs = "" if record.num_answers else lessons.needs
        for value in lessons.values:
            self._store.add(value)


def _witnesses(readers: Sequence[ToolRecord], made: ChangeInput) -> Iterator[tuple[Tool, Mapping[str, Any]]]:
    """Yield calls that might show the change: those that name what is changed, then those that list."""
    found: dict[str, tuple[Tool, Mapping[str, Any]]] = {}
    lists = [
        [(record.tool, arguments) for arguments in _calls_of(record, made)][:_NUM_OF_READER]
        for record in readers
    ]
    for place in range(_NUM_OF_READER):
        for calls in lists:
            if place < len(calls):
                tool, arguments = calls[place]
                found.setdefault(f"{tool.name} {value_key(arguments)}", calls[place])
    yield from list(found.values())[:_NUM_WITNESSES]


def _calls_of(record: ToolRecord, made: ChangeInput) -> Iterator[dict[str, Any]]:
    """Yield the calls of a reader that might show a change, the most telling first."""
    known = record.observations[0].plain_arguments
    parameters = parameters_of(record.tool)
    for parameter in parameters:
        if not parameter.is_required and parameter.name not in known and len(parameters) > 1:
            continue
        for value in _fitting(parameter, made):
            yield {**known, parameter.name: value}
            break
    yield from (seen.plain_arguments for seen in _nearest(record.observations, made))


def _nearest(observations: Sequence[Observation], made: ChangeInput) -> list[Observation]:
    """Return observations, those first whose arguments name a folder or a thing of the change."""
    texts = [value for value in made.arguments.values() if isinstance(value, str)]

    def distance(seen: Observation) -> int:
        named = [str(value).rstrip("/") for value in seen.plain_arguments.values()]
        if not named:
            return 1
        folders = [text.rpartition("/")[0] for text in texts]
        return 0 if any(name in texts or name in folders for name in named) else 2

    return sorted(observations, key=distance)


def _fitting(parameter: Parameter, made: ChangeInput) -> Iterator[Any]:
    """Yield values of the change that a reader's parameter could take: by name, else what was drawn."""
    fits = [
        (name_fit(parameter.name, core_name(name) or parameter.name), name, value)
        for name, value in _plain(made.arguments)
    ]
    for fit, _, value in sorted(fits, key=lambda one: -one[0]):
        if fit >= 2 or (fit == 1 and parameter.is_required):
            if parameter.kind is Kind.ARRAY and not isinstance(value, list):
                yield [value]
            elif parameter.accepts(value):
                yield value
    if parameter.kind is Kind.TEXT and not parameter.enum and parameter.is_required:
        yield from made.drawn[:1]
    elif parameter.kind is Kind.ARRAY and parameter.is_required:
        yield from ([text] for text in (*made.drawn, *made.existing)[:1])


def _plain(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments with their names, those of records inside them too."""
    for name, value in arguments.items():
        yield name, value
        for record in value if isinstance(value, list) else [value]:
            if isinstance(record, Mapping):
                yield from record.items()
