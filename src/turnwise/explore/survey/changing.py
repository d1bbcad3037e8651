"""Calls that change something: what every reader answers before and after them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from turnwise.explore.records import Answer, Call, Change, ColumnPlace, RowDifference
from turnwise.explore.survey.drawing import drawn, format_of
from turnwise.explore.survey.knowledge import Knowledge, new_name
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.explore.survey.probes import probes_of
from turnwise.explore.survey.refusals import leaves
from turnwise.explore.survey.roles import Roles, own_witnesses, prelude_of
from turnwise.explore.survey.sessions import Session, SessionLost, Sessions
from turnwise.explore.survey.snapshots import Snapshot, row_differences, snapshot
from turnwise.explore.survey.walk import Trace

_PER_TOOL = 8
"""Changes of one tool."""
_TRIES = 24
"""Calls of one tool that may turn out to change nothing."""
_MAX_OTHERS = 6
_MAX_RECIPES = 3
"""Single calls that are tried in place of all those before a change."""
_MAX_MUTATIONS = 6


@dataclass(frozen=True, slots=True)
class Effect:
    """What readers answered before and after one call in a fresh session."""

    call: Call
    prelude: tuple[Call, ...]
    before: Snapshot
    after: Snapshot
    differences: tuple[RowDifference, ...]


class Changes:
    """The search for changes of one server."""

    def __init__(
        self, sessions: Sessions, traces: Mapping[str, Trace], roles: Roles, knowledge: Knowledge, seed: str
    ) -> None:
        """knowledge: of what a fresh session shows."""
        self._sessions = sessions
        self._traces = traces
        self._roles = roles
        self._knowledge = knowledge
        self._rng = Random(seed)  # noqa: S311  # tasks, not secrets
        self.effects: dict[str, list[Effect]] = {}
        self._tried: set[str] = set()

    async def find(self) -> list[Change]:
        """Try every writer in turn, so that all have changes before one has several."""
        readers = self._roles.readers | self._roles.volatile.tools
        writers = [
            trace
            for name, trace in sorted(self._traces.items())
            if name not in readers and not trace.tool.is_read_only and trace.num_calls
        ]
        pending = {trace.tool.name: self._proposals(trace) for trace in writers}
        for _ in range(_PER_TOOL):
            for name, proposals in list(pending.items()):
                if self._sessions.budget.is_spent:
                    break
                effect = await self._next_effect(proposals)
                if effect is None:
                    del pending[name]
                else:
                    self._add(await self._shortest(effect))
        return [change for name in self.effects for change in self._changes_of(name)]

    def _add(self, effect: Effect) -> None:
        self.effects.setdefault(effect.call.tool, []).append(effect)
        self._roles.writers.add(effect.call.tool)
        self._roles.readers.discard(effect.call.tool)
        self._roles.panel = [one for one in self._roles.panel if one.tool != effect.call.tool]

    def _proposals(self, trace: Trace) -> Iterator[Call]:
        """Yield calls of a writer: those that succeeded, and others with things of a fresh session."""
        known = sorted(trace.replies, key=lambda one: len(self._prelude(one.call)))
        for attempt in range(_TRIES):
            arguments = self._knowledge.propose(trace.tool, attempt, self._rng, trace.wanted)
            if attempt % 3 == 2 and attempt // 3 < len(known):
                arguments = self._sayable(trace, known[attempt // 3].call)
            elif attempt % 6 == 3:
                arguments = self._newly_named(trace, arguments)
            elif attempt % 3 == 1 and known:
                base = self._sayable(trace, known[attempt // 3 % len(known)].call)
                arguments = {**self._optional(trace, attempt), **base}
            call = Call(trace.tool.server, trace.tool.name, arguments)
            if call.key not in self._tried:
                self._tried.add(call.key)
                yield call

    def _sayable(self, trace: Trace, call: Call) -> dict[str, Any]:
        """Return the arguments of a call; names that were drawn to name nothing are replaced by words."""
        if call not in trace.novel:
            return dict(call.arguments)
        return {
            name: new_name("", self._rng) if isinstance(value, str) else value
            for name, value in call.arguments.items()
        }

    def _newly_named(self, trace: Trace, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with a new text in place of one: a thing that does not exist yet."""
        texts = [
            one
            for one in parameters_of(trace.tool)
            if isinstance(arguments.get(one.name), str) and not one.enum and not format_of(one)
        ]
        if not texts:
            return arguments
        chosen = self._rng.choice(texts)
        return {**arguments, chosen.name: drawn(chosen, self._rng)}

    def _optional(self, trace: Trace, attempt: int) -> dict[str, Any]:
        """Return values for all optional arguments: what a call leaves out changes nothing."""
        names = [one.name for one in parameters_of(trace.tool)]
        return self._knowledge.propose(trace.tool, attempt, self._rng, names)

    def _prelude(self, call: Call) -> tuple[Call, ...]:
        """Return the calls before a call in its walk that may have made what it needs."""
        return prelude_of(self._traces[call.tool], call, self._roles)

    async def _next_effect(self, proposals: Iterator[Call]) -> Effect | None:
        """Make proposed calls in a fresh session until one has an effect."""
        try:
            async with self._sessions.fresh() as session:
                state: dict[str, Answer] = {}
                made: list[Call] = []
                for call in proposals:
                    if session.budget.is_spent:
                        return None
                    if effect := await self._effect(session, call, state, made):
                        if call.tool not in self.effects:
                            await self._try_readers(session, effect)
                        return effect
        except SessionLost:
            pass
        return None

    async def _shortest(self, effect: Effect) -> Effect:
        """Return the effect with the fewest calls before it that still bring it about."""
        shorter: list[tuple[Call, ...]] = [()] if effect.prelude else []
        if len(effect.prelude) > 1:
            shorter += [(one,) for one in reversed(effect.prelude[-_MAX_RECIPES:])]
        for prelude in shorter:
            try:
                async with self._sessions.fresh() as session:
                    for needed in prelude:
                        await session.call(needed)
                    witnesses = [one.call for one in effect.after.values()]
                    before = await snapshot(session, witnesses)
                    if (await session.call(effect.call)).is_error:
                        continue
                    after = await snapshot(session, witnesses)
            except SessionLost:
                return effect
            if differences := self._differences(before, after):
                return Effect(effect.call, prelude, before, after, tuple(differences))
        return effect

    async def _effect(
        self, session: Session, call: Call, state: dict[str, Answer], made: list[Call]
    ) -> Effect | None:
        """Make a call between two readings.

        state: what the witnesses answered last in this session; made: the calls before that changed it.
        """
        readers = self._roles.readers - self._roles.volatile.tools
        witnesses = [*self._roles.panel, *own_witnesses(call, self._traces, readers)]
        state |= await snapshot(session, [one for one in witnesses if one.key not in state])
        reply = await session.call(call)
        if reply.is_error and (prelude := self._prelude(call)):
            for needed in prelude:
                await session.call(needed)
            made += prelude
            state |= await snapshot(session, witnesses)
            reply = await session.call(call)
        if reply.is_error:
            return None
        after = await snapshot(session, witnesses)
        before = {key: state[key] for key in after if key in state}
        state |= after
        differences = self._differences(before, after)
        if not differences or not _mentions(differences, call):
            return None
        return Effect(call, tuple(made), before, after, tuple(differences))

    async def _try_readers(self, session: Session, effect: Effect) -> None:
        """Call what had no effect before in the changed state: what undoes or completes a change writes."""
        seen = {one.reader.key: effect.after[one.reader.key] for one in effect.differences}
        for name, trace in sorted(self._traces.items()):
            is_idle = name in self._roles.readers or not parameters_of(trace.tool)
            is_known = trace.tool.is_read_only or name in self.effects or not trace.successes
            if is_known or not is_idle or session.budget.is_spent or name == effect.call.tool:
                continue
            calls = [answer.call for answer in seen.values() if answer.call.tool != name]
            call = trace.successes[0].call
            if (await session.call(call)).is_error:
                continue
            after = await snapshot(session, calls)
            before = {key: seen[key] for key in after}
            differences = self._differences(before, after)
            if differences:
                found = Effect(call, (*effect.prelude, effect.call), before, after, tuple(differences))
                self._add(await self._shortest(found))
                return  # the state is another one now

    def _differences(self, before: Snapshot, after: Snapshot) -> list[RowDifference]:
        volatile = self._roles.volatile
        return [
            difference
            for key in before
            if key in after and before[key].call.tool not in volatile.tools
            for difference in row_differences(before[key], after[key], volatile)
        ]

    def _changes_of(self, name: str) -> Iterator[Change]:
        """Yield the changes of a tool whose effects probes can tell from others."""
        for effect in self.effects[name]:
            others = [
                one.after
                for own in self.effects.values()
                for one in own
                if one is not effect and not one.prelude
            ]
            probes = probes_of(effect.call, effect.before, effect.after, others, self._roles.volatile)
            if probes:
                yield Change(
                    effect.call,
                    effect.prelude,
                    probes,
                    effect.differences,
                    tuple(self._mutations(effect))[:_MAX_MUTATIONS],
                    tuple(self._other_writers(effect))[:_MAX_OTHERS],
                    landed(effect.call, effect.differences),
                )

    def _mutations(self, effect: Effect) -> Iterator[Call]:
        """Yield the call with one argument changed, to another value that the tool would take."""
        arguments = effect.call.arguments
        for parameter in parameters_of(self._traces[effect.call.tool].tool):
            if parameter.name in arguments:
                other = self._changed(effect.call.tool, parameter, arguments[parameter.name])
                if other is not None:
                    yield replace(effect.call, arguments={**arguments, parameter.name: other})

    def _changed(self, tool: str, parameter: Parameter, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, list) and value and parameter.items is not None:
            first = self._changed(tool, replace(parameter.items, name=parameter.name), value[0])
            return None if first is None else [first, *value[1:]]
        if isinstance(value, dict) and parameter.properties:
            parts = {
                part.name: self._changed(tool, part, value[part.name])
                for part in parameter.properties
                if part.name in value
            }
            name = next((name for name, other in parts.items() if other is not None), None)
            return None if name is None else {**value, name: parts[name]}
        choices = [*self._knowledge.proven.get((tool, parameter.name), [])]
        choices += self._knowledge.candidates(tool, parameter, None, self._rng)
        if parameter.kind is not Kind.OBJECT:
            choices.append(drawn(parameter, self._rng))
        fitting = [one for one in choices if one not in (value, None) and parameter.accepts(one)]
        return fitting[0] if fitting else None

    def _other_writers(self, effect: Effect) -> Iterator[Call]:
        """Yield calls of other writers, first those on the same thing."""
        own = effect.call.arguments
        for name, effects in self.effects.items():
            if name != effect.call.tool and effects:
                other = effects[0].call
                shared = {key: own[key] for key in other.arguments if key in own}
                if shared and shared != {key: other.arguments[key] for key in shared}:
                    yield replace(other, arguments={**other.arguments, **shared})
        for name, effects in self.effects.items():
            yield from (one.call for one in effects[:1] if name != effect.call.tool)


def _mentions(differences: Sequence[RowDifference], call: Call) -> bool:
    """Return whether rows that differ have an argument's value in a cell, or the reader was asked for one."""
    sent = {str(leaf).lower() for leaf in leaves(call.arguments) if not isinstance(leaf, bool)}
    for one in differences:
        cells = {str(cell).lower() for row in (*one.gone, *one.new) for cell in row if cell is not None}
        asked = {str(leaf).lower() for leaf in leaves(one.reader.arguments)}
        is_found = any(value in cell for value in sent if len(value) > 2 for cell in cells)
        if sent & (cells | asked) or is_found:
            return True
    return not sent


def landed(call: Call, differences: Sequence[RowDifference]) -> dict[str, ColumnPlace]:
    """Return the columns in which the values of arguments appear in new rows."""
    places: dict[str, ColumnPlace] = {}
    for name, value in named_leaves(call.arguments):
        wanted = {str(value)}
        for one in differences:
            for row in one.new:
                for column, cell in zip(one.columns, row, strict=True):
                    if cell is not None and str(cell) in wanted:
                        places.setdefault(name, ColumnPlace(one.reader.tool, one.path, column))
    return places


def named_leaves(arguments: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside arguments with their paths, `items[].name` in lists."""
    for key, value in arguments.items():
        items = value if isinstance(value, list) else [value]
        is_nested = isinstance(value, list) and any(isinstance(one, dict) for one in items)
        name = f"{prefix}{key}[]" if is_nested else f"{prefix}{key}"
        for item in items:
            if isinstance(item, Mapping):
                yield from named_leaves(item, f"{name}.")
            elif item is not None:
                yield name, item
