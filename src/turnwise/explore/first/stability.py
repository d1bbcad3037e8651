"""Which answers are the same in every fresh session, and which tools change what others answer."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from turnwise.explore.first.caller import ServerCaller, Session, SessionLost
from turnwise.explore.first.document import Document
from turnwise.explore.first.observation import Observation

_CLOCK_SECONDS = 1.1
"""Waited between two readings of the same thing: a clock that shows seconds moves on."""
_NUM_TWICE = 2
"""Observations of a tool that are made twice in a row to see whether it changes what it reads."""
_NUM_WITNESSES = 6
"""Observations of other tools that are repeated after a call to see whether it changed them."""


@dataclass(slots=True)
class Steadiness:
    """What repeated calls showed about the tools of one server."""

    stable: dict[int, frozenset[str]] = field(default_factory=dict)
    """By number of an observation: the names of the fields that differed when it was repeated."""
    unstable: set[int] = field(default_factory=set)
    """Observations that failed, or differed in everything, when repeated."""
    changers: set[str] = field(default_factory=set)
    """Tools whose calls changed the answer of another call."""
    renewed: dict[int, Document] = field(default_factory=dict)
    """By number of an observation: its answer in a session without calls of the changers."""
    read_at: float = -math.inf
    """When the last of these answers was read, a time of `time.monotonic()`."""

    def keep(self, number: int, changed: frozenset[str] | None) -> None:
        """Note the fields of an answer that differed, besides those that are known to; None: all of it."""
        if changed is None:
            self.stable.pop(number, None)
            self.unstable.add(number)
        else:
            self.stable[number] = self.stable.get(number, frozenset()) | changed


async def examine(
    caller: ServerCaller, observations: Sequence[Observation], on_progress: Callable[[str], None]
) -> Steadiness:
    """Repeat every observation in a fresh session, in reverse order, and look for tools that change state."""
    found = Steadiness()
    if not observations:
        return found
    await asyncio.sleep(_CLOCK_SECONDS)
    repeated = await _repeat(caller, list(reversed(observations)))
    for observation in observations:
        if observation.number not in repeated:
            continue  # there was no time
        found.keep(observation.number, _differing(observation.document, repeated[observation.number]))
    await _find_changers(caller, observations, found)
    if found.changers:
        await _renew(caller, observations, found)
    await _read_twice(caller, [seen for seen in observations if seen.tool.name not in found.changers], found)
    found.read_at = time.monotonic()
    on_progress(f"{caller.server}: {len(found.stable)} of {len(observations)} answers repeat")
    return found


async def _renew(caller: ServerCaller, observations: Sequence[Observation], found: Steadiness) -> None:
    """Repeat the readers' calls in two sessions without the changers, which influenced those before."""
    readers = [seen for seen in observations if seen.tool.name not in found.changers]
    first = await _repeat(caller, readers)
    second = await _repeat(caller, readers[::-1])
    for observation in readers:
        one = first.get(observation.number)
        changed = _differing(one, second.get(observation.number))
        if one is not None and changed is not None:
            found.stable[observation.number] = changed
            found.renewed[observation.number] = one
            found.unstable.discard(observation.number)


async def examine_later(
    caller: ServerCaller,
    observations: Sequence[Observation],
    found: Steadiness,
    pause_seconds: float,
    on_progress: Callable[[str], None],
) -> None:
    """Repeat the stable observations once more, when at least this time has passed since they were read."""
    stable = [
        seen for seen in observations if seen.number in found.stable and seen.tool.name not in found.changers
    ]
    caller.budget.extend(len(stable))
    rest = found.read_at + pause_seconds - time.monotonic()
    if not stable or caller.budget.is_spent:
        return
    if rest > 1:
        on_progress(f"{caller.server}: in {rest:.0f} s, its answers are read again")
    await asyncio.sleep(max(0.0, rest))
    again = await _repeat(caller, stable)
    for observation in stable:
        if observation.number in again:  # else there was no time
            before = found.renewed.get(observation.number, observation.document)
            found.keep(observation.number, _differing(before, again[observation.number]))
    num_moved = sum(seen.number in found.unstable or bool(found.stable[seen.number]) for seen in stable)
    on_progress(f"{caller.server}: {len(stable) - num_moved} of {len(stable)} answers are the same later")


async def _read_twice(caller: ServerCaller, observations: Sequence[Observation], found: Steadiness) -> None:
    """Make calls of every tool twice in a row: what differs then differs in all of its answers."""
    chosen: dict[str, list[Observation]] = {}
    for observation in observations:
        if observation.number in found.stable:
            chosen.setdefault(observation.tool.name, []).append(observation)
    first = [seen for of_tool in chosen.values() for seen in of_tool[:_NUM_TWICE]]
    try:
        async with caller.session() as session:
            for observation in first:
                arguments = observation.plain_arguments
                replies = [await session.call(observation.tool, arguments) for _ in range(2)]
                changed = _differing(replies[0].document, replies[1].document)
                for other in chosen[observation.tool.name]:
                    found.keep(other.number, changed)
    except SessionLost:
        return  # the next stage finds out whether the server works


async def _repeat(caller: ServerCaller, observations: Sequence[Observation]) -> dict[int, Document | None]:
    """Return the new answers by number, None for calls that failed; those that were not made are missing."""
    again: dict[int, Document | None] = {}
    pending = list(observations)
    while pending and not caller.budget.is_spent:
        try:
            async with caller.session() as session:
                while pending and not caller.budget.is_spent:
                    observation = pending.pop(0)
                    again[observation.number] = None
                    reply = await session.call(observation.tool, observation.plain_arguments)
                    again[observation.number] = reply.document
        except SessionLost:
            continue
    return again


async def _find_changers(
    caller: ServerCaller, observations: Sequence[Observation], found: Steadiness
) -> None:
    """Make one call of every tool twice in one session; if an answer differs, look at every tool alone."""
    first_of: dict[str, Observation] = {}
    for observation in observations:
        if not observation.document.is_cut:
            first_of.setdefault(observation.tool.name, observation)
    suspects = list(first_of.values())
    if await _is_repeatable(caller, suspects):
        return
    for suspect in suspects:
        witnesses = [seen for seen in suspects if seen.tool.name != suspect.tool.name][:_NUM_WITNESSES]
        if await _changes(caller, suspect, witnesses):
            found.changers.add(suspect.tool.name)


async def _is_repeatable(caller: ServerCaller, suspects: Sequence[Observation]) -> bool:
    """Return whether the calls answer alike when all of them are made a second time."""
    try:
        async with caller.session() as session:
            return await _read(session, suspects) == await _read(session, suspects)
    except SessionLost:
        return False


async def _changes(caller: ServerCaller, suspect: Observation, witnesses: Sequence[Observation]) -> bool:
    """Return whether a call changes what the witnesses answer, in a session of its own."""
    if not witnesses or caller.budget.is_spent:
        return False
    try:
        async with caller.session() as session:
            first, second = await _read(session, witnesses), await _read(session, witnesses)
            await session.call(suspect.tool, suspect.plain_arguments)
            last = await _read(session, witnesses)
            # a clock differs at once: only what stood still before the call can show a change
            return any(first[number] == second[number] != last[number] for number in first)
    except SessionLost:
        return False


async def _read(session: Session, witnesses: Sequence[Observation]) -> Mapping[int, str]:
    read: dict[int, str] = {}
    for witness in witnesses:
        reply = await session.call(witness.tool, witness.plain_arguments)
        read[witness.number] = reply.error if reply.document is None else reply.document.text
    return read


def _differing(first: Document | None, second: Document | None) -> frozenset[str] | None:
    """Return the names of the fields that differ; None if a call failed or the forms differ."""
    return None if first is None or second is None else changed_fields(first, second)


def changed_fields(first: Document, second: Document) -> frozenset[str] | None:
    """Return the names of fields and columns that differ between two answers; None if their forms differ."""
    if first.text == second.text:
        return frozenset()
    if not first.fields and not first.tables:
        return None
    if [field.path for field in first.fields] != [field.path for field in second.fields]:
        return None
    names = {
        one.name for one, other in zip(first.fields, second.fields, strict=True) if one.value != other.value
    }
    if [(table.path, len(table.rows)) for table in first.tables] != [
        (table.path, len(table.rows)) for table in second.tables
    ]:
        return None
    for table, other_table in zip(first.tables, second.tables, strict=True):
        for row, other_row in zip(table.rows, other_table.rows, strict=True):
            names |= {key for key in {*row, *other_row} if row.get(key) != other_row.get(key)}
    # a text that differs although all its fields agree changes somewhere that was not understood
    return frozenset(names) if names and "" not in names else None
