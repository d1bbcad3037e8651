"""Find changes that tools make: call them in throwaway sessions, and look for a call that shows it."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.caller import ServerCaller, Session, SessionLost
from turnwise.explore.change import Change
from turnwise.explore.drawn_texts import DrawnTexts, marked
from turnwise.explore.error_lessons import lessons_of
from turnwise.explore.parameters import Parameter, parameters_of
from turnwise.explore.proposals import drawn_inputs, proposals
from turnwise.explore.survey import Survey, ToolRecord
from turnwise.types import StateProbe, Tool

_NUM_CHANGES = 6
"""Changes looked for per tool."""
_NUM_TRIES = 16
_NUM_WITNESSES = 10
_PROPOSALS = 40


@dataclass(frozen=True, slots=True)
class _Reading:
    """A call that might show a change."""

    tool: Tool
    arguments: Mapping[str, Any]


async def find_changes(
    caller: ServerCaller, survey: Survey, writers: Sequence[str], seed: int
) -> list[Change]:
    """Return changes of one server, each with a probe that failed before and held after."""
    found: list[Change] = []
    for name in writers:
        record = survey.records[name]
        chance = random.Random(f"{seed}/change/{name}")  # noqa: S311  # tasks, not secrets
        found.extend(await _changes_of(record, caller, survey, chance))
        await caller.end_session()  # the next tool finds the server as it was
    return found


async def _changes_of(
    record: ToolRecord, caller: ServerCaller, survey: Survey, chance: random.Random
) -> list[Change]:
    found: list[Change] = []
    texts = DrawnTexts(chance)
    num_tries = 0
    while num_tries < _NUM_TRIES and len(found) < _NUM_CHANGES:
        num_before = len(found)
        drawn = drawn_inputs(record.tool, chance, _NUM_TRIES)
        for proposed in (*proposals(record.tool, survey.store, chance, limit=_PROPOSALS), *drawn):
            if (
                num_tries >= _NUM_TRIES
                or len(found) >= _NUM_CHANGES
                or caller.budget.is_spent
                or record.needs
            ):
                return found
            arguments, markers = marked(record.tool, proposed, texts)
            if not markers:
                continue
            num_tries += 1
            made = await _try(record, arguments, markers, caller, survey)
            if made is not None:
                found.append(made)
        if len(found) == num_before:
            return found
    return found


async def _try(
    record: ToolRecord,
    arguments: Mapping[str, Any],
    markers: Sequence[str],
    caller: ServerCaller,
    survey: Survey,
) -> Change | None:
    """Make the change; None if it fails, or if nothing shows it."""
    record.num_calls += 1
    readings = list(_readings(record.tool, arguments, markers, survey))[:_NUM_WITNESSES]
    try:
        session = await caller.kept_session()
        before = [await _text(session, reading) for reading in readings]
        reply = await session.call(record.tool, arguments)
        if reply.document is None:
            record.last_error = reply.error
            lessons = lessons_of(reply.error, record.tool)
            record.needs = "" if record.num_answers else lessons.needs
            for value in lessons.values:
                survey.store.add(value)
            return None
        record.num_answers += 1
        for reading, old in zip(readings, before, strict=True):
            marker = _shown(reading, markers, old, await _text(session, reading))
            if marker:
                probe = StateProbe(reading.tool.name, reading.arguments, marker)
                return Change(record.tool, arguments, probe, tuple(markers))
    except SessionLost as error:
        record.last_error = str(error)
        await caller.end_session()
    return None


def _shown(reading: _Reading, markers: Sequence[str], old: str, new: str) -> str:
    """Return a drawn text that only the later answer contains, and that the reading does not name itself."""
    named = str(reading.arguments)
    return next(
        (marker for marker in markers if marker in new and marker not in old and marker not in named), ""
    )


async def _text(session: Session, reading: _Reading) -> str:
    reply = await session.call(reading.tool, reading.arguments)
    return "" if reply.document is None else reply.document.text


def _readings(
    writer: Tool, arguments: Mapping[str, Any], markers: Sequence[str], survey: Survey
) -> Iterator[_Reading]:
    """Yield calls that might show the change: those that name what was written, then those that list."""
    readers = [
        record
        for record in survey.records.values()
        if record.tool.server == writer.server and record.tool.name != writer.name and record.observations
    ]
    for record in readers:
        parameters = parameters_of(record.tool)
        known = record.observations[0].plain_arguments
        for parameter in parameters:
            for value in _fitting(parameter, arguments, markers):
                yield _Reading(record.tool, {**known, parameter.name: value})
    for record in readers:
        for observation in record.observations[:2]:
            yield _Reading(record.tool, observation.plain_arguments)


def _fitting(parameter: Parameter, arguments: Mapping[str, Any], markers: Sequence[str]) -> Iterator[Any]:
    """Yield values of the change that a reader's parameter could take: by name, else what was drawn."""
    if parameter.name in arguments and parameter.kind in ("text", "integer", "array"):
        yield arguments[parameter.name]
    elif parameter.kind == "array" and markers:
        yield [markers[0]]
    elif parameter.kind == "text" and not parameter.enum and parameter.is_required and markers:
        yield markers[0]
