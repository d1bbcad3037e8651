"""Calls every tool of a server in a few sessions, and keeps what came back with the calls before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from turnwise.explore.records import Answer, Call
from turnwise.explore.survey.drawing import absent
from turnwise.explore.survey.knowledge import Knowledge
from turnwise.explore.survey.lessons import lesson_of, missing_in
from turnwise.explore.survey.parameters import parameters_of
from turnwise.explore.survey.refusals import Refusals, leaves
from turnwise.explore.survey.sessions import Session, SessionLost, Sessions
from turnwise.types import Tool

_NUM_SESSIONS = 6
_MAX_IDLE = 2
_TRIES = 7
"""Failures of a tool in one session after which the next one is called."""
_SUCCESSES = 4
"""Answers of a tool in one session that are enough."""
_NAMED_CALLS = 10
"""Successes in one session after which a tool that errors name is not called for them again."""
_FEW = 3
"""Different answers after which a tool is known."""
_MAX_VAIN = 40
"""Failures in a row, over all sessions, after which a tool that never answered is left alone."""
_SLOW_SECONDS, _SLOW_CALLS = 3.0, 2
"""A tool that takes longer is called only so often: it would use up the time of the others."""


@dataclass(slots=True)
class Trace:
    """What is known of one tool while it is called."""

    tool: Tool
    successes: list[Answer] = field(default_factory=list)
    novel: list[Call] = field(default_factory=list)
    """Calls with names that nothing has: what creates something does so."""
    mute: list[Answer] = field(default_factory=list)
    """Replies that are no errors, and are what absent values get too."""
    preludes: dict[str, tuple[Call, ...]] = field(default_factory=dict)
    """By call key: the successful calls of the session before it that it may need."""
    wanted: set[str] = field(default_factory=set)
    """Optional parameters that an error asked for."""
    tried: set[str] = field(default_factory=set)
    num_calls: int = 0
    num_vain: int = 0
    last_error: str = ""
    attempt: int = 0
    fastest: float = 0.0
    """The seconds of its fastest call: the first one may load something."""

    @property
    def is_slow(self) -> bool:
        return self.fastest > _SLOW_SECONDS

    @property
    def has_rows(self) -> bool:
        return any(not answer.is_empty for answer in self.successes)

    @property
    def replies(self) -> list[Answer]:
        """All replies that are no errors, those that say something first."""
        return [*self.successes, *self.mute]

    @property
    def is_hopeless(self) -> bool:
        return self.num_vain >= _MAX_VAIN and not self.successes


class Walk:
    """The calls of one server's tools, session by session."""

    def __init__(
        self,
        sessions: Sessions,
        tools: Sequence[Tool],
        knowledge: Knowledge,
        refusals: Refusals,
        seed: str,
    ) -> None:
        self._sessions = sessions
        self._knowledge = knowledge
        self._refusals = refusals
        self._rng = Random(seed)  # noqa: S311  # tasks, not secrets
        self.traces = {tool.name: Trace(tool) for tool in tools}
        self._server_names = {tool.server_tool: tool.name for tool in tools}
        self._before: list[Answer] = []
        self._num_sessions = 0

    async def run(self, say: Callable[[str], None]) -> None:
        """Walk until two sessions in a row bring nothing new."""
        num_idle = 0
        for _ in range(_NUM_SESSIONS):
            num_before = self._progress
            try:
                async with self._sessions.fresh() as session:
                    await self._walk(session)
            except SessionLost:
                if self._sessions.budget.is_spent:
                    return
            reached = sum(bool(trace.successes) for trace in self.traces.values())
            say(f"{self._sessions.server}: {reached} of {len(self.traces)} tools answered")
            self._num_sessions += 1
            is_done = all(trace.has_rows or trace.is_hopeless for trace in self.traces.values())
            num_idle = num_idle + 1 if self._progress == num_before else 0
            if self._sessions.budget.is_spent or is_done or num_idle >= _MAX_IDLE:
                return

    @property
    def _progress(self) -> tuple[int, int]:
        reached = sum(trace.has_rows for trace in self.traces.values())
        return reached, sum(bool(trace.successes) for trace in self.traces.values())

    async def _walk(self, session: Session) -> None:
        """Call all tools in turn twice, those that may show something first."""
        self._before = []
        for is_second in (False, True):
            queue = sorted(self.traces.values(), key=self._order)
            for trace in queue:
                is_known = trace.has_rows and len(trace.successes) >= _FEW
                if trace.is_hopeless or (is_known and (is_second or self._num_sessions)):
                    continue
                await self._try(session, trace, _TRIES if is_second else _TRIES // 2)
                if session.budget.is_spent:
                    return

    def _order(self, trace: Trace) -> tuple[bool, bool, int]:
        needed = sum(one.is_required for one in parameters_of(trace.tool))
        is_mute = bool(trace.successes) and not trace.has_rows
        return is_mute, not trace.tool.is_read_only and bool(needed), needed

    async def _try(self, session: Session, trace: Trace, num_tries: int, depth: int = 0) -> None:
        num_failed = num_good = num_repeated = 0
        if not trace.attempt:
            await self._try_absent(session, trace)
        while num_failed < num_tries and num_good < _SUCCESSES and num_repeated < 6:
            arguments = self._knowledge.propose(trace.tool, trace.attempt, self._rng, trace.wanted)
            call = Call(trace.tool.server, trace.tool.name, arguments)
            trace.attempt += 1
            if call.key in trace.tried and (num_failed or num_good):
                num_repeated += 1
                continue
            trace.tried.add(call.key)
            if session.budget.is_spent or (trace.is_slow and trace.num_calls >= _SLOW_CALLS):
                return
            answer = await self._called(session, trace, call)
            if self._is_good(answer):
                num_good += 1
                self._keep(trace, answer)
            elif not answer.is_error and len(trace.mute) >= _FEW and not trace.successes:
                return  # it says the same whatever it is asked
            else:
                if not answer.is_error:
                    trace.mute.append(answer)
                    self._before.append(answer)
                num_failed += 1
                trace.num_vain += 1
                if asked := await self._learn(session, trace, answer, depth):
                    num_good += await self._retry(session, trace, call, asked)
            if not parameters_of(trace.tool):
                return

    async def _retry(self, session: Session, trace: Trace, call: Call, asked: Sequence[Call]) -> bool:
        """Make a call again after those that its error asked for; return whether it succeeds now."""
        answer = await self._called(session, trace, call)
        if not self._is_good(answer):
            return False
        self._keep(trace, answer)
        needed = [one for one in trace.preludes[call.key] if one not in asked]
        trace.preludes[call.key] = (*needed, *asked)
        return True

    async def _try_absent(self, session: Session, trace: Trace) -> None:
        """Call a tool with values that name nothing, to know how it refuses."""
        arguments = self._knowledge.propose(trace.tool, 0, self._rng)
        known = {one.name: absent(one, self._rng) for one in parameters_of(trace.tool)}
        wrong = {name: value for name, value in known.items() if value is not None and name in arguments}
        if wrong:
            call = Call(trace.tool.server, trace.tool.name, {**arguments, **wrong})
            answer = await self._called(session, trace, call)
            self._refusals.learn(answer)
            if not answer.is_error:
                self._before.append(answer)
                trace.mute.append(answer)
                trace.novel.append(call)

    async def _called(self, session: Session, trace: Trace, call: Call) -> Answer:
        trace.num_calls += 1
        try:
            answer = await session.call(call)
        except SessionLost as error:
            trace.num_vain += 4
            trace.last_error = str(error)
            raise
        trace.fastest = min(trace.fastest or session.seconds, session.seconds)
        return answer

    def _is_good(self, answer: Answer) -> bool:
        return not self._refusals.is_refused(answer)

    def _keep(self, trace: Trace, answer: Answer) -> None:
        """Keep a success; its arguments are proven, and its rows are values for others."""
        call = answer.call
        trace.num_vain = 0
        if all(call.key != one.call.key and answer.text != one.text for one in trace.successes):
            trace.successes.append(answer)
            trace.preludes[call.key] = needed_before(call, self._before)
        self._before.append(answer)
        self._knowledge.prove(call.tool, call.arguments)
        self._knowledge.learn(answer)

    async def _learn(self, session: Session, trace: Trace, answer: Answer, depth: int) -> list[Call]:
        """Take from an error what it teaches; return the calls of tools that it names which succeeded."""
        trace.last_error = answer.text[:400] or "an empty answer"
        parameters = parameters_of(trace.tool)
        lesson = lesson_of(answer, parameters, list(self._server_names))
        arguments = answer.call.arguments
        if answer.is_error:
            trace.wanted.update(missing_in(lesson, arguments))
        required = [one.name for one in parameters if one.is_required]
        for name in lesson.blamed or required:
            if name in lesson.blamed and name in arguments and answer.is_error:
                self._knowledge.refuse(trace.tool.name, name, arguments[name])
            taught = self._knowledge.taught.setdefault((trace.tool.name, name), [])
            taught += [value for value in lesson.values if value not in taught][: 12 - len(taught)]
        num_before = len(self._before)
        for name in lesson.tools:
            other = self.traces[self._server_names[name]]
            num_made = sum(one.call.tool == other.tool.name for one in self._before)
            if num_made < _NAMED_CALLS and depth < 2 and other.num_calls < 3 * _MAX_VAIN:
                await self._try(session, other, 3, depth + 1)
        return [one.call for one in self._before[num_before:]]


def needed_before(call: Call, before: Sequence[Answer]) -> tuple[Call, ...]:
    """Return the earlier calls that a call may need: those that were sent or gave one of its values."""
    wanted = {
        str(leaf) for leaf in leaves(call.arguments) if len(str(leaf)) > 1 or not isinstance(leaf, bool)
    }
    needed: list[Call] = []
    for answer in reversed(before):
        sent = {str(leaf) for leaf in leaves(answer.call.arguments)}
        if answer.call.key != call.key and (wanted & sent or any(one in answer.text for one in wanted)):
            wanted |= sent
            needed.append(answer.call)
    return tuple(dict.fromkeys(reversed(needed)))
