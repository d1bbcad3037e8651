"""Programs over inputs that are drawn rather than found: queries to databases, conversions, calculations."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from turnwise.explore.first.caller import ServerCaller, SessionLost
from turnwise.explore.first.computing.calculations import calculations, formula_parameter, is_calculator
from turnwise.explore.first.computing.conversions import conversions, converter_of
from turnwise.explore.first.computing.recognition import computes
from turnwise.explore.first.computing.time_zones import time_conversions, time_converter_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.sql.discovery import find_databases
from turnwise.explore.first.sql.drafts import sql_drafts
from turnwise.explore.first.survey import Survey, ToolRecord
from turnwise.explore.first.tool_verbs import presumes_reading

_CALLS_OF_SERVER = 720
"""Calls with drawn inputs, for all tools of a server that compute."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drafts over drawn inputs, and the tools that only they use: other shapes would show bare inputs."""

    drafts: tuple[Draft, ...]
    tools: frozenset[str]


async def draw(
    callers: Mapping[str, ServerCaller], survey: Survey, changers: Collection[str], seed: int
) -> Drawn:
    """Return the programs of all tools that take statements, quantities or expressions."""
    drafts: list[Draft] = []
    tools: set[str] = set()
    for database in await find_databases(callers, survey, changers):
        tools.add(database.tool.name)
        drafts.extend(sql_drafts(database, seed))
    for server, caller in callers.items():
        records = [
            record
            for record in survey.records.values()
            if record.tool.server == server
            and presumes_reading(record.tool)
            and record.tool.name not in changers
            and record.tool.name not in tools
            and record.num_answers
        ]
        computing = [record for record in records if computes(record.tool)]
        for record in computing:
            made = await _computations(record, caller, seed, _CALLS_OF_SERVER // len(computing))
            drafts.extend(made)
            tools.update([record.tool.name] if made else [])
        await caller.end_session()
    return Drawn(tuple(drafts), frozenset(tools))


async def _computations(record: ToolRecord, caller: ServerCaller, seed: int, max_calls: int) -> list[Draft]:
    """Return the programs of a tool that converts or calculates; none if its server fails."""
    tool = record.tool
    chance = random.Random(f"{seed}/computing/{tool.name}")  # noqa: S311  # tasks, not secrets
    if caller.budget.is_spent:
        return []
    try:
        session = await caller.kept_session()
        times = time_converter_of(tool)
        if times is not None:
            return await time_conversions(times, session, chance, max_calls)
        converter = converter_of(tool, record.observations)
        if converter is not None:
            made = await conversions(converter, session, chance, max_calls)
            return [computation.draft() for computation in made]
        parameter = formula_parameter(tool)
        if parameter is None or not await is_calculator(tool, parameter, session):
            return []
        made = await calculations(tool, parameter, session, chance, max_calls)
        return [computation.draft() for computation in made]
    except SessionLost:
        await caller.end_session()
        return []
