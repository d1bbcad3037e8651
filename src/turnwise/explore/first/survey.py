"""Call every tool with values that fit its parameters, and learn from the answers and the errors."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from turnwise.explore.first.caller import Reply, ServerCaller, Session, SessionLost
from turnwise.explore.first.computing.recognition import computes
from turnwise.explore.first.document import Document
from turnwise.explore.first.error_lessons import lessons_of
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.proposals import proposals
from turnwise.explore.first.tool_verbs import is_deprecated, presumes_reading, words_of
from turnwise.explore.first.value_sources import values_of
from turnwise.explore.first.values import Source, Value, ValueStore
from turnwise.types import Tool

_NUM_ROUNDS = 5
"""Values travel one link per round: an id that is three answers away is found in the fourth."""
_TRIES_PER_ROUND = 10
_ENOUGH = 24
"""Observations of one tool: more would only repeat the same kinds of tasks."""
_FEW = 3
"""Observations of a tool that computes: its inputs are drawn later."""
_PROPOSALS = 60
"""Argument sets looked at per tool and round, most of which were tried before."""
_MAX_VAIN = 24
"""Consecutive failures after which a tool is not tried any more."""
_VAIN_PER_ROUND = 6
"""Failures of a tool in a round without an answer: the next round knows more values."""
_MAX_BLIND = 3
"""Failures in a round with values that were only drawn: an id is not found by guessing."""
_SLOW_SECONDS = 4.0
_MAX_SLOW_CALLS = 2
"""Calls of a tool that takes longer than `_SLOW_SECONDS`: it would use up the time of the others."""
_FOLDER_WORDS = {"path", "dir", "directory", "folder"}


@dataclass(slots=True)
class ToolRecord:
    """What is known about one tool while it is surveyed."""

    tool: Tool
    observations: list[Observation] = field(default_factory=list)
    num_answers: int = 0
    tried: set[str] = field(default_factory=set)
    num_calls: int = 0
    num_vain: int = 0
    num_empty: int = 0
    """Calls that succeeded with an empty answer."""
    longest_seconds: float = 0.0
    last_error: str = ""
    """The last error of the calls with the most arguments that are known to be right."""
    error_merit: int = -1
    missing: set[str] = field(default_factory=set)
    """Optional parameters that an error asked for."""
    num_wanted: int = _ENOUGH
    """Answers after which the tool is not called any more."""
    needs: str = ""
    """`key`, `network` or `login`, if an error said so."""

    @property
    def is_slow(self) -> bool:
        return self.longest_seconds > _SLOW_SECONDS

    @property
    def is_wanted(self) -> bool:
        if self.is_slow and self.num_calls >= _MAX_SLOW_CALLS:
            return False
        return self.num_answers < self.num_wanted and not self.needs and self.num_vain < _MAX_VAIN


@dataclass(frozen=True, slots=True)
class _Answered:
    tool: Tool
    arguments: Mapping[str, Value]
    document: Document


@dataclass(frozen=True, slots=True)
class _Round:
    """The outcome of one round at one server; applied to the store in a fixed order of servers."""

    answers: tuple[_Answered, ...]
    learned: tuple[Value, ...]


class Survey:
    """The observations of all servers, and the values found in them."""

    def __init__(self, callers: Mapping[str, ServerCaller], tools: Sequence[Tool], store: ValueStore) -> None:
        self._callers = callers
        self.records = {
            tool.name: ToolRecord(tool, num_wanted=_FEW if computes(tool) else _ENOUGH) for tool in tools
        }
        self.store = store
        self.observations: list[Observation] = []

    async def run(self, seed: int, on_progress: Callable[[str], None]) -> None:
        """Survey all servers, in rounds: every round tries values that the rounds before it found."""
        for number in range(_NUM_ROUNDS):
            num_before = len(self.observations)
            rounds = await asyncio.gather(
                *(self._survey_server(caller, f"{seed}/{number}") for caller in self._callers.values())
            )
            for found in rounds:
                self._apply(found)
            num_new = len(self.observations) - num_before
            on_progress(f"survey: {len(self.observations)} answers of {self.num_reached} tools")
            if number and not num_new:
                break
        for caller in self._callers.values():
            await caller.end_session()

    @property
    def num_reached(self) -> int:
        return sum(bool(record.observations) for record in self.records.values())

    async def _survey_server(self, caller: ServerCaller, seed: str) -> _Round:
        answers: list[_Answered] = []
        learned: list[Value] = []
        pending = [
            record
            for record in self.records.values()
            if record.tool.server == caller.server and _is_surveyed(record.tool) and record.is_wanted
        ]
        pending.sort(key=lambda record: record.is_slow)
        while pending and not caller.budget.is_spent:
            try:
                session = await caller.kept_session()
                while pending and not caller.budget.is_spent:
                    await self._try(pending.pop(0), session, caller, seed, answers, learned)
            except SessionLost:
                await caller.end_session()  # the tool that broke it is off the list; the others go on
        return _Round(tuple(answers), tuple(learned))

    async def _try(
        self,
        record: ToolRecord,
        session: Session,
        caller: ServerCaller,
        seed: str,
        answers: list[_Answered],
        learned: list[Value],
    ) -> None:
        chance = random.Random(f"{seed}/{record.tool.name}")  # noqa: S311  # tasks, not secrets
        num_tries = num_blind = num_failed = 0
        for arguments in self._proposals(record, chance):
            is_blind = bool(arguments) and all(value.source is Source.DRAWN for value in arguments.values())
            if is_blind and num_blind >= _MAX_BLIND:
                continue
            is_vain = num_failed == num_tries >= _VAIN_PER_ROUND
            if num_tries >= _TRIES_PER_ROUND or is_vain or not record.is_wanted or caller.budget.is_spent:
                return
            observation = Observation(0, record.tool, arguments, Document(""))
            if observation.key in record.tried:
                continue
            record.tried.add(observation.key)
            num_tries += 1
            record.num_calls += 1
            try:
                reply = await session.call(record.tool, observation.plain_arguments)
            except SessionLost as error:
                record.num_vain += 1
                record.last_error = str(error)
                raise
            record.longest_seconds = max(record.longest_seconds, reply.seconds)
            if reply.document is None:
                num_failed += 1
                num_blind += is_blind
                learned.extend(self._learn(record, arguments, reply))
                continue
            record.num_vain = 0
            record.num_answers += 1
            self.store.succeeded(record.tool, arguments)
            answers.append(_Answered(record.tool, arguments, reply.document))

    def _proposals(self, record: ToolRecord, chance: random.Random) -> Iterator[dict[str, Value]]:
        """Yield argument sets, those with a value that an error blamed meanwhile at the end."""
        postponed: list[dict[str, Value]] = []
        tool = record.tool
        for arguments in proposals(tool, self.store, chance, limit=_PROPOSALS, missing=record.missing):
            plain = {name: value.value for name, value in arguments.items()}
            if any(self.store.evidence.is_refused(tool, name, value) for name, value in plain.items()):
                postponed.append(arguments)
            else:
                yield arguments
        yield from postponed

    def _learn(self, record: ToolRecord, arguments: Mapping[str, Value], reply: Reply) -> tuple[Value, ...]:
        """Record a failure; return the values that the error names."""
        record.num_vain += 1
        record.num_empty += reply.is_empty
        if reply.is_empty:
            return ()
        plain = {name: value.value for name, value in arguments.items()}
        merit = sum(self.store.evidence.is_proven(record.tool, name, value) for name, value in plain.items())
        if merit >= record.error_merit:
            record.last_error, record.error_merit = reply.error, merit
        self.store.failed(record.tool, arguments, reply.error)
        lessons = lessons_of(reply.error, record.tool, plain)
        record.needs = "" if record.num_answers else lessons.needs
        record.missing.update(lessons.missing)
        return lessons.values

    def _apply(self, found: _Round) -> None:
        """Number the observations; add their values, and those that errors named, to the store."""
        for answered in found.answers:
            self.observe(answered.tool, answered.arguments, answered.document)
        for value in found.learned:
            self.store.add(value)

    def observe(self, tool: Tool, arguments: Mapping[str, Value], document: Document) -> Observation:
        """Keep an answer, and its values."""
        observation = Observation(len(self.observations), tool, arguments, document)
        self.observations.append(observation)
        self.records[tool.name].observations.append(observation)
        folder = _folder_in(arguments)
        for value in values_of(observation.number, document, tool_name=tool.server_tool, folder=folder):
            self.store.add(value)
        return observation


def _is_surveyed(tool: Tool) -> bool:
    return presumes_reading(tool) and not is_deprecated(tool)


def _folder_in(arguments: Mapping[str, Value]) -> str:
    """Return the folder that a call lists, if an argument names one: its entries are then full paths."""
    for name, value in arguments.items():
        if set(words_of(name)) & _FOLDER_WORDS and isinstance(value.value, str):
            return value.value
    return ""
