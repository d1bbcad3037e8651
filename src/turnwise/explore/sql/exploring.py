"""Find the servers that take SQL, read their tables, and compose questions and changes."""

import itertools
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from turnwise.explore.programs.draft import Draft
from turnwise.explore.records import Dialect, Survey
from turnwise.explore.sql.changes import creations, edit_draft, edits
from turnwise.explore.sql.discovery import (
    Database,
    SqlTool,
    candidates,
    find_creators,
    find_reader,
    find_writer,
    read_database,
)
from turnwise.explore.sql.questions import sql_drafts
from turnwise.explore.survey.budget import Budget, Limits
from turnwise.explore.survey.sessions import SessionLost, Sessions
from turnwise.explore.survey.surveying import SurveyOptions, may_call
from turnwise.mcp.pool import Pool


async def sql_programs(
    pool: Pool, survey: Survey, options: SurveyOptions, deadline: float, say: Callable[[str], None]
) -> tuple[Survey, list[Draft]]:
    """Return the survey with the dialects, and the drafts in SQL."""
    drafts: list[Draft] = []
    dialects: list[Dialect] = []
    for server in dict.fromkeys(facts.tool.server for facts in survey.tools.values()):
        found = [one for one in candidates(survey, server) if may_call(pool, one.tool, options)]
        if not found or time.monotonic() > deadline:
            continue
        sessions = Sessions(pool, server, Budget(Limits(), deadline=deadline))
        try:
            async with sessions.fresh() as session:
                reader = await find_reader(found, session)
                database = await read_database(reader, session) if reader else None
            if reader is None:
                continue
            dialects.append(Dialect(reader.tool.name, reader.parameter, "sql"))
            if database is None:
                continue
            drafts += sql_drafts(database)
            say(f"{server}: {reader.tool.name} takes SQL; {len(database.tables)} tables")
            if not pool.exposure(server).outside or server in options.writable:
                drafts += await _changes(sessions, database, found, options.seed)
        except SessionLost:
            say(f"{server}: the server failed, the rest of its SQL is left out")
    return replace(survey, dialects=tuple(dialects)), drafts


async def _changes(
    sessions: Sessions, database: Database, found: Collection[SqlTool], seed: int
) -> list[Draft]:
    async with sessions.fresh() as session:
        writer = await find_writer(list(found), database, session)
    async with sessions.fresh() as session:
        creators = await find_creators(list(found), database.reader, session)
    wanted = [(writer, edit) for edit in (edits(database, seed) if writer else ())]
    creators.sort(key=lambda one: one == writer)  # the tool for it first
    wanted += list(zip(itertools.cycle(creators), creations(database), strict=False)) if creators else []
    drafts = []
    for tool, edit in wanted:
        if tool is None or sessions.budget.is_spent:
            break
        try:
            async with sessions.fresh() as session:
                if draft := await edit_draft(database, tool, edit, session):
                    drafts.append(draft)
        except SessionLost:
            continue
    return drafts
