"""Programs over inputs that are drawn rather than found: queries to databases, conversions, calculations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from turnwise.explore.caller import ServerCaller
from turnwise.explore.draft import Draft
from turnwise.explore.sql.discovery import find_databases
from turnwise.explore.sql.drafts import sql_drafts
from turnwise.explore.survey import Survey


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
    return Drawn(tuple(drafts), frozenset(tools))
