"""Which tools read and which write: tried, by what other tools answer before and after."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnwise.explore.records import Answer, Call
from turnwise.explore.survey.parameters import parameters_of
from turnwise.explore.survey.refusals import leaves, without_echo
from turnwise.explore.survey.sessions import Session, SessionLost, Sessions
from turnwise.explore.survey.snapshots import Volatile, differing
from turnwise.explore.survey.walk import Trace

_ROUNDS = 3
_MAX_WITNESSES = 5
_PANEL_PER_TOOL = 2
"""Calls of one reader that a panel has at most."""
_MAX_PANEL = 14
_MAX_OWN = 6
"""Readers that are called with the values of a call that may change something."""
_MIN_OWN_CHARS = 2
_MAX_ANSWERS = 8
"""Answers of one reader that are kept."""
_MAX_FULLER = 2
"""Those with optional arguments."""


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


def says_the_same(answers: Sequence[Answer]) -> bool:
    """Return whether different calls were answered alike but for their own values: a mere confirmation."""
    calls = {answer.call.key for answer in answers}
    return len(calls) > 1 and len({without_echo(one.text, one.call.arguments) for one in answers}) == 1


def own_witnesses(call: Call, traces: Mapping[str, Trace], readers: Iterable[str]) -> list[Call]:
    """Return calls of readers with values of this call: what it changes may be shown nowhere else."""
    found: dict[str, Call] = {}
    texts = {str(leaf): leaf for leaf in leaves(call.arguments) if len(str(leaf)) >= _MIN_OWN_CHARS}
    for name in sorted(readers):
        trace = traces[name]
        required = [one for one in parameters_of(trace.tool) if one.is_required]
        if not required or not trace.successes or trace.is_slow:
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
    """Read everything that answered with rows in two fresh sessions, in opposite orders.

    An answer that differs has a cause: the call of a writer before it, or nothing, then it is volatile.
    """
    roles = Roles(
        readers={
            name for name, trace in traces.items() if trace.has_rows and not says_the_same(trace.replies)
        }
    )
    agreed: dict[str, Answer] = {}  # holds also if there is no time for another round
    for _ in range(_ROUNDS):
        calls = reading_calls(traces, roles)
        novel = [call for name in sorted(roles.readers) for call in novel_calls(traces[name])]
        first = await _pass(sessions, [*calls, *novel, *calls[:_MAX_PANEL]])
        second = await _pass(sessions, calls[::-1])
        roles.answers = {**agreed, **{call.key: first[0][call.key] for call in calls if call.key in first[0]}}
        changed = {**_changed(first[0], first[1], roles), **_changed(first[0], second[0], roles)}
        agreed |= {key: one for key, one in first[0].items() if key in second[0] and key not in changed}
        if changed and await _explained(sessions, changed, traces, roles):
            continue
        break
    roles.readers -= roles.writers
    roles.volatile.tools -= roles.writers  # called as a witness, a writer answers otherwise each time
    steady = [one for one in roles.answers.values() if one.call.tool in roles.readers - roles.volatile.tools]
    roles.panel = _panel(
        [
            one
            for one in steady
            if not traces[one.call.tool].is_slow and (not one.is_error or not one.call.arguments)
        ]
    )
    roles.answers = {one.call.key: one for one in steady if not one.is_error}
    roles.readers &= {one.call.tool for one in roles.answers.values()} | roles.volatile.tools
    return roles


def reading_calls(traces: Mapping[str, Trace], roles: Roles) -> list[Call]:
    """Return the calls of the readers by turns, those with few arguments first: time may end early."""
    by_tool: list[list[Call]] = []
    for name in sorted(roles.readers):
        trace = traces[name]
        own = [answer.call for answer in trace.successes[: 1 if trace.is_slow else None]]
        bare = {call.key: call for call in (without_options(call, trace) for call in own)}
        fuller = {call.key: call for call in own if call.key not in bare}
        chosen = [*bare.values(), *list(fuller.values())[:_MAX_FULLER]][:_MAX_ANSWERS]
        by_tool.append(sorted(chosen, key=lambda call: len(call.arguments)))
    by_tool.sort(key=lambda calls: min((len(call.arguments) for call in calls), default=0))
    return [call for calls in itertools.zip_longest(*by_tool) for call in calls if call is not None]


def without_options(call: Call, trace: Trace) -> Call:
    """Return a call with only the arguments that its tool needs."""
    needed = {one.name for one in parameters_of(trace.tool) if one.is_required} | trace.wanted
    return replace(call, arguments={name: value for name, value in call.arguments.items() if name in needed})


def prelude_of(trace: Trace, call: Call, roles: Roles) -> tuple[Call, ...]:
    """Return the calls that a call, or the success that it extends, may need before it."""
    known = [key for key in trace.preludes if key == call.key] or [
        one.call.key for one in trace.replies if _is_within(one.call.arguments, call.arguments)
    ]
    calls = trace.preludes.get(known[0], ()) if known else ()
    return tuple(one for one in calls if one.tool not in roles.readers)


def _is_within(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(name in whole and whole[name] == value for name, value in part.items())


def novel_calls(trace: Trace) -> list[Call]:
    """Return calls that would create something if the tool did, with new names."""
    return [] if trace.tool.is_read_only else trace.novel[:1]


def _panel(answers: Sequence[Answer]) -> list[Call]:
    """Return a few calls of every reader, those that show the most first."""
    panel: list[Call] = []
    largest = sorted(answers, key=lambda one: (len(one.call.arguments), -len(one.text)))
    for number in range(_PANEL_PER_TOOL):
        tools = dict.fromkeys(one.call.tool for one in largest)
        own = {tool: [one.call for one in largest if one.call.tool == tool] for tool in tools}
        panel += [calls[number] for calls in own.values() if len(calls) > number]
    return panel[:_MAX_PANEL]


async def _pass(sessions: Sessions, calls: Sequence[Call]) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """Make calls in a fresh session; return the first and the later answers by call key."""
    first: dict[str, Answer] = {}
    later: dict[str, Answer] = {}
    try:
        async with sessions.fresh() as session:
            for call in calls:
                if session.budget.is_spent:
                    break
                (later if call.key in first else first)[call.key] = await session.call(call)
    except SessionLost:
        pass  # what was read so far holds
    return first, later


def _changed(one: Mapping[str, Answer], other: Mapping[str, Answer], roles: Roles) -> dict[str, Answer]:
    return {key: other[key] for key in differing(one, other, roles.volatile)}


async def _explained(
    sessions: Sessions, changed: Mapping[str, Answer], traces: Mapping[str, Trace], roles: Roles
) -> bool:
    """Find out why answers differ; return whether some tools turned out to write."""
    culprits: set[str] = set()
    witnesses = [differs.call for differs in changed.values()][:_MAX_WITNESSES]
    try:
        async with sessions.fresh() as session:
            for witness in witnesses:
                culprits |= await _culprits(session, witness, traces, roles)
    except SessionLost:
        pass
    if not culprits:  # what differs although nothing was called before it is volatile
        (first, _), (second, _) = [await _pass(sessions, witnesses) for _ in range(2)]
        for key in first.keys() & second.keys():
            roles.volatile.learn(first[key], second[key])
        roles.answers |= first
    roles.writers |= culprits
    roles.readers -= culprits
    return bool(culprits)


async def _culprits(session: Session, witness: Call, traces: Mapping[str, Trace], roles: Roles) -> set[str]:
    """Return the tools whose calls make the witness answer differently."""
    found: set[str] = set()
    suspects = sorted(roles.readers - {witness.tool})
    before = await session.call(witness)
    for name in suspects:
        if session.budget.is_spent:
            break
        still = await session.call(witness)
        tried = [call for call in reading_calls(traces, roles) if call.tool == name]
        for call in [*tried, *novel_calls(traces[name])]:
            await session.call(call)
        after = await session.call(witness)
        is_quiet = not differing({"": before}, {"": still}, roles.volatile)
        if not is_quiet:
            roles.volatile.learn(before, still)
        elif differing({"": still}, {"": after}, roles.volatile):
            found.add(name)
        before = after
    if len(found) > 2 and 2 * len(found) > len(suspects):
        roles.volatile.tools.add(witness.tool)  # a log: it differs after any call
        return set()
    return found
