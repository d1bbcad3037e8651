"""Which tools read and which write: tried, by what other tools answer before and after."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from turnwise.explore.second.records import Answer, Call
from turnwise.explore.second.survey.parameters import parameters_of
from turnwise.explore.second.survey.refusals import leaves, without_echo
from turnwise.explore.second.survey.sessions import Session, SessionLost, Sessions
from turnwise.explore.second.survey.snapshots import Volatile, differing, snapshot
from turnwise.explore.second.survey.walk import Trace

_PER_TOOL = 3
"""Calls of a tool in the trial."""
_PANEL_PER_TOOL = 2
"""Calls of one reader that a panel has at most."""
_MAX_PANEL = 16
_MAX_OWN = 6
"""Readers that are called with the values of the call on trial."""
_MIN_OWN_CHARS = 2
_MAX_ANSWERS = 12
"""Answers of one reader that are kept."""


@dataclass(slots=True)
class Roles:
    """What the trial showed."""

    readers: set[str] = field(default_factory=set)
    writers: set[str] = field(default_factory=set)
    panel: list[Call] = field(default_factory=list)
    """Reading calls that show the state of the server."""
    volatile: Volatile = field(default_factory=Volatile)
    answers: dict[str, Answer] = field(default_factory=dict)
    """What the readers answered in a session without writers, by call key."""


class Trial:
    """One session in which every tool is called between two readings of the panel."""

    def __init__(self, session: Session, traces: Mapping[str, Trace], roles: Roles) -> None:
        self._session = session
        self._traces = traces
        self._roles = roles
        self._state: dict[str, Answer] = {}

    async def run(self, order: Iterable[Trace]) -> None:
        for trace in order:
            if self._session.budget.is_spent:
                return
            if trace.tool.is_read_only:
                await self._admit(trace, [await self._session.call(call) for call in trial_calls(trace)])
            else:
                await self._try(trace)

    async def _try(self, trace: Trace) -> None:
        """Call one tool; it writes if another answer differs afterwards and stays as it is then."""
        replies: list[Answer] = []
        for call in trial_calls(trace):
            for needed in () if self._roles.panel == [] else trace.preludes.get(call.key, ()):
                if needed.tool != call.tool:
                    await self._session.call(needed)
            witnesses = [*self._roles.panel, *own_witnesses(call, self._traces, self._roles.readers)]
            if not replies or len(witnesses) > len(self._roles.panel) or trace.preludes.get(call.key):
                self._state = await snapshot(self._session, witnesses)
            replies += [await self._session.call(call), await self._session.call(call)]
            if await self._has_changed(witnesses):
                self._roles.writers.add(trace.tool.name)
                return
        await self._admit(trace, replies[::2], replies[1::2])

    async def _has_changed(self, witnesses: Sequence[Call]) -> bool:
        """Read the witnesses again; an answer that differs from itself at once is volatile."""
        before, after = self._state, await snapshot(self._session, witnesses)
        self._state = after
        changed = differing(before, after, self._roles.volatile)
        if not changed:
            return False
        again = await snapshot(self._session, [after[key].call for key in changed])
        for key in differing(again, after, self._roles.volatile):
            self._roles.volatile.learn(after[key], again[key])
        return bool(differing(before, after, self._roles.volatile))

    async def _admit(
        self, trace: Trace, replies: Sequence[Answer], again: Sequence[Answer] | None = None
    ) -> None:
        """Add a tool that changed nothing and answered with rows to the readers and the panel."""
        name, volatile = trace.tool.name, self._roles.volatile
        useful = [one for one in replies if not one.is_error and not one.is_empty]
        if not useful or says_the_same(useful):
            return
        if again is None:
            again = [await self._session.call(replies[0].call)]
        for one, other in zip(replies, again, strict=False):
            if not one.is_error and not other.is_error:
                volatile.learn(one, other)
        self._roles.readers.add(name)
        if len(self._roles.panel) < _MAX_PANEL and name not in volatile.tools:
            self._roles.panel += [one.call for one in useful[:_PANEL_PER_TOOL]]
            self._state |= {one.call.key: one for one in useful[:_PANEL_PER_TOOL]}


def says_the_same(answers: Sequence[Answer]) -> bool:
    """Return whether different calls were answered alike but for their own values: a mere confirmation."""
    calls = {answer.call.key for answer in answers}
    return len(calls) > 1 and len({without_echo(one.text, one.call.arguments) for one in answers}) == 1


def trial_calls(trace: Trace) -> list[Call]:
    """Return the calls of a tool that are tried, those with rows and few arguments first."""
    chosen = sorted(trace.successes, key=lambda answer: (answer.is_empty, len(answer.call.arguments)))
    return [answer.call for answer in chosen[:_PER_TOOL]]


def own_witnesses(call: Call, traces: Mapping[str, Trace], readers: Iterable[str]) -> list[Call]:
    """Return calls of readers with values of this call: what it changes may be shown nowhere else."""
    found: dict[str, Call] = {}
    texts = {str(leaf): leaf for leaf in leaves(call.arguments) if len(str(leaf)) >= _MIN_OWN_CHARS}
    for name in sorted(readers):
        trace = traces[name]
        required = [one for one in parameters_of(trace.tool) if one.is_required]
        if not required or not trace.successes:
            continue
        base = dict(trace.successes[0].call.arguments)
        proven = {str(leaf) for answer in trace.successes for leaf in leaves(answer.call.arguments)}
        for parameter in required:
            own = call.arguments.get(parameter.name)
            values = [own] if own is not None else [leaf for text, leaf in texts.items() if text in proven]
            for value in values:
                if parameter.accepts(value) and parameter.name in base:
                    one = Call(call.server, name, {**base, parameter.name: value})
                    found.setdefault(one.key, one)
    return list(found.values())[:_MAX_OWN]


async def find_roles(sessions: Sessions, traces: Mapping[str, Trace]) -> Roles:
    """Try after which tools another answer differs; then whether the others really only read."""
    roles = Roles()
    order = sorted(
        (trace for trace in traces.values() if trace.successes),
        key=lambda trace: (not trace.tool.is_read_only, not trace.has_rows, _num_arguments(trace)),
    )
    try:
        async with sessions.fresh() as session:
            await Trial(session, traces, roles).run(order)
        await _confirm(sessions, traces, roles)
    except SessionLost:
        pass  # what was seen so far holds
    return roles


def _num_arguments(trace: Trace) -> int:
    return min(len(answer.call.arguments) for answer in trace.successes)


def reading_calls(traces: Mapping[str, Trace], roles: Roles) -> list[Call]:
    """Return the calls of the readers whose answers are kept."""
    readers = [traces[name] for name in sorted(roles.readers)]
    return [answer.call for trace in readers for answer in trace.successes[:_MAX_ANSWERS]]


async def _confirm(sessions: Sessions, traces: Mapping[str, Trace], roles: Roles) -> None:
    """Read the whole panel twice in a fresh session; whatever makes another answer differ is a writer."""
    async with sessions.fresh() as session:
        roles.answers |= await snapshot(session, reading_calls(traces, roles))
        for _ in range(3):
            first = await snapshot(session, roles.panel)
            second = await snapshot(session, roles.panel)
            changed = differing(first, second, roles.volatile)
            if not changed or session.budget.is_spent:
                return
            culprits = await _culprits(session, [first[key].call for key in changed], roles)
            if not culprits:
                for key in changed:
                    roles.volatile.learn(first[key], second[key])
            roles.writers |= culprits
            roles.readers -= culprits
            gone = culprits | roles.volatile.tools
            roles.panel = [call for call in roles.panel if call.tool not in gone]


async def _culprits(session: Session, shown: Sequence[Call], roles: Roles) -> set[str]:
    """Return the tools of the panel that make one of these calls answer differently."""
    found: set[str] = set()
    for witness in shown[:4]:
        blamed: set[str] = set()
        suspects = [call for call in roles.panel if call.tool != witness.tool]
        for suspect in suspects:
            one, two = await session.call(witness), await session.call(witness)
            await session.call(suspect)
            three = await session.call(witness)
            is_quiet = not differing({"": one}, {"": two}, roles.volatile)
            if is_quiet and differing({"": two}, {"": three}, roles.volatile):
                blamed.add(suspect.tool)
        if 2 * len(blamed) > len({call.tool for call in suspects}):
            roles.volatile.tools.add(witness.tool)  # a log: it differs after any call
        else:
            found |= blamed
    return found
