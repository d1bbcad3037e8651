"""The stages of a survey: walk, roles, facts, links, changes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Link, Path, ServerFacts, Survey, ToolFacts
from turnwise.explore.survey.budget import Budget, Limits
from turnwise.explore.survey.changing import Changes
from turnwise.explore.survey.facts import clean_answers, of_today, read_after
from turnwise.explore.survey.following import followed
from turnwise.explore.survey.knowledge import Knowledge
from turnwise.explore.survey.linking import LinkSearch, classes_of, complete_lists
from turnwise.explore.survey.refusals import Refusals
from turnwise.explore.survey.roles import Roles, find_roles, prelude_of, says_the_same
from turnwise.explore.survey.sessions import SessionLost, Sessions
from turnwise.explore.survey.sources import configured_values, offered_answers, offered_values
from turnwise.explore.survey.walk import Trace, Walk
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec
from turnwise.types import Tool

Say = Callable[[str], None]
_NUM_CALLS, _REMOTE_NUM_CALLS = 6_000, 300
_WALK, _ROLES, _LINKS, _CHANGES = 0.3, 0.55, 0.7, 1.0
"""The shares of the time when the stages end at the latest."""
_LEAST_SECONDS = 5.0
_T = TypeVar("_T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SurveyOptions:
    """What a survey may do."""

    seed: int = 0
    seconds: float = 120.0
    """For each server."""
    writable: tuple[str, ...] = ()
    """Servers whose real data may be changed."""
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of the user's own by parameter name."""


async def survey(pool: Pool, specs: Sequence[ServerSpec], options: SurveyOptions, say: Say) -> Survey:
    """Survey all connected servers."""
    tools = [tool for tool in pool.tools if may_call(pool, tool, options)]
    parts = await asyncio.gather(
        *(
            _ServerSurvey(pool, spec, [tool for tool in tools if tool.server == spec.name], options).run(say)
            for spec in specs
            if any(tool.server == spec.name for tool in tools)
        )
    )
    facts = {name: one for part in parts for name, one in part.tools.items()}
    for tool in pool.tools:
        facts.setdefault(
            tool.name, ToolFacts(tool, "unreached", reason=f"not called: {pool.exposure(tool.server)}")
        )
    return Survey(
        tools=facts,
        links=tuple(link for part in parts for link in part.links),
        changes=tuple(change for part in parts for change in part.changes),
        complete=frozenset().union(*(part.complete for part in parts)),
        servers={name: why for part in parts for name, why in part.servers.items()},
    )


def may_call(pool: Pool, tool: Tool, options: SurveyOptions) -> bool:
    """Return whether a call cannot change anything of the user's, or the user allows it."""
    return tool.is_read_only or not pool.exposure(tool.server).outside or tool.server in options.writable


@dataclass(frozen=True, slots=True)
class _Linked:
    """What the search for links brought."""

    links: Sequence[Link]
    answers: Sequence[Answer]
    complete: frozenset[tuple[str, Path]]


class _ServerSurvey:
    """The survey of one server."""

    def __init__(self, pool: Pool, spec: ServerSpec, tools: Sequence[Tool], options: SurveyOptions) -> None:
        self._started = time.monotonic()
        limits = Limits(
            num_calls=_REMOTE_NUM_CALLS if spec.is_remote else _NUM_CALLS, seconds=options.seconds
        )
        self._sessions = Sessions(pool, spec.name, Budget(limits))
        self._pool = pool
        self._spec = spec
        self._tools = tools
        self._options = options
        self._knowledge = Knowledge(user=options.values)
        self._refusals = Refusals()

    async def run(self, say: Say) -> Survey:
        """Run all stages."""
        name, seed = self._sessions.server, f"{self._options.seed}/{self._sessions.server}"
        offerings = await self._pool.offerings(name)
        self._knowledge.loose += [*configured_values(self._spec), *offered_values(offerings)]
        for answer in offered_answers(name, offerings):
            self._knowledge.learn(answer)
        walk = Walk(self._sessions, self._tools, self._knowledge, self._refusals, seed)
        await self._stage(_WALK, walk.run(say))
        roles = await self._stage(_ROLES, find_roles(self._sessions, walk.traces))
        say(f"{name}: {len(roles.readers)} tools read")
        answers = [one for one in roles.answers.values() if not is_cut(one.text)]
        linked = await self._stage(_LINKS, self._linked(walk, roles, answers))
        say(f"{name}: {len(linked.links)} links")
        fresh = Knowledge(user=self._options.values, loose=self._knowledge.loose)
        for answer in linked.answers:
            fresh.learn(answer)
            fresh.prove(answer.call.tool, answer.call.arguments)
        trials = Changes(self._sessions, walk.traces, roles, fresh, seed)
        changes = await self._stage(_CHANGES, trials.find())
        say(f"{name}: {len(changes)} changes that readers show")
        unread = [
            trace
            for tool, trace in sorted(walk.traces.items())
            if tool not in roles.readers | roles.writers and not says_the_same(trace.replies)
        ]
        later = await self._stage(1.0, read_after(self._sessions, unread, roles))
        clean = clean_answers([*linked.answers, *later], roles.volatile)
        late = {one.call.key for one in later}
        facts = {tool: self._facts(trace, roles, clean, late) for tool, trace in walk.traces.items()}
        budget = self._sessions.budget
        return Survey(
            tools=facts,
            links=tuple(linked.links),
            changes=tuple(changes),
            complete=linked.complete,
            servers={
                name: ServerFacts(budget.why_spent, budget.num_calls, budget.seconds, budget.is_limited)
            },
        )

    async def _linked(self, walk: Walk, roles: Roles, answers: Sequence[Answer]) -> "_Linked":
        """Look for links in a session of its own; the answers to their values are kept too."""
        tidy = [one for own in clean_answers(answers, roles.volatile).values() for one in own]
        try:
            async with self._sessions.fresh() as session:
                search = LinkSearch(session, walk.traces, self._refusals, tidy)
                marked = {name for name, one in walk.traces.items() if one.tool.is_read_only}
                links = await search.find(roles.readers | marked)
                accepted = [one for one in search.accepted if not is_cut(one.text)]
                known = {one.call.key: one for one in (*answers, *accepted)}
                user = self._options.values
                kept = await followed(session, walk.traces, links, list(known.values()), self._refusals, user)
                late = await of_today(session, walk.traces, kept)
                kept = [one for one in kept if one.call.key not in late]
        except SessionLost:
            return _Linked((), answers, frozenset())
        replies = [one for one in search.replies if not self._refusals.is_refused(one)]
        tidy = [one for own in clean_answers([*kept, *replies], roles.volatile).values() for one in own]
        return _Linked(links, kept, complete_lists(tidy, classes_of(tidy)))

    async def _stage(self, share: float, work: Awaitable[_T]) -> _T:
        """Do the work of a stage; it ends when this share of the time is over since the start."""
        left = self._started + share * self._options.seconds - time.monotonic()
        self._sessions.budget.begin(max(_LEAST_SECONDS, left))
        start, num_calls = time.monotonic(), self._sessions.budget.num_calls
        outcome = await work
        logger.debug(
            "%s: %.1f s, %d calls",
            work,
            time.monotonic() - start,
            self._sessions.budget.num_calls - num_calls,
        )
        return outcome

    def _facts(
        self, trace: Trace, roles: Roles, clean: Mapping[str, Sequence[Answer]], late: Collection[str]
    ) -> ToolFacts:
        """late: the keys of calls that were answered after others."""
        name = trace.tool.name
        answers = tuple(clean.get(name, ()))
        if name in roles.writers:
            return ToolFacts(trace.tool, "writer", num_calls=trace.num_calls)
        if answers:
            calls = [one.call for one in answers if one.call.key in late]
            preludes = {call.key: prelude_of(trace, call, roles) for call in calls}
            return ToolFacts(trace.tool, "reader", answers, preludes, num_calls=trace.num_calls)
        return ToolFacts(trace.tool, "unreached", reason=_reason(trace), num_calls=trace.num_calls)


def _reason(trace: Trace) -> str:
    if not trace.num_calls:
        return "it was not called: there was no time"
    if trace.successes:
        return f"{trace.num_calls} calls: its answers hold nothing that lasts and can be asked for"
    return f"{trace.num_calls} calls, the last answer: {trace.last_error}"
