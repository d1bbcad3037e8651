"""Whether a draft is a task: its plan reproduces its answer in fresh sessions, and no shortcut earns it."""

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.first.answers import is_fit_answer
from turnwise.explore.first.document import Document, Scalar, document_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.entities import leaves
from turnwise.explore.first.surroundings import Surroundings
from turnwise.explore.first.tool_verbs import presumes_reading
from turnwise.explore.verdicts.plan_session import PlanSession
from turnwise.mcp.calls.results import CUT_MARK
from turnwise.mcp.session import ConnectFailed
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.follow import PlanFailed, PlanRun, ToolsDown, all_hold, asked, follow
from turnwise.tasks.proof.verdict import answering_instead, idle_cheats, shortened, why_unsound
from turnwise.types import ExpectedWrite, StateProbe, Task, Tool, ToolCall, Truth
from turnwise.types.protocols import Toolbox

_LARGE = 100
"""Smaller whole numbers are in many results by chance."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a draft is not a task: a reason that can be counted, and the details."""

    reason: str
    details: str = ""


THERE_BEFORE = "the change is there before it was made"
NOT_SEEN = "the change cannot be seen"
MOVED = "it is not the same some time later"
OUT_OF_TIME = Refusal("time ran out")
"""Not a rejection: the draft was not looked at."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A draft whose plan came to the same conclusion twice."""

    draft: Draft
    played: PlanRun
    again: PlanRun
    tools: tuple[Tool, ...]
    """The tools that an episode of it is offered."""
    probes: tuple[StateProbe, ...] = ()
    """What shows its changes, and that nothing else has changed."""

    @property
    def server_changed(self) -> str:
        """The server of the plan's last call, which is the one that changes something."""
        return next(tool.server for tool in self.tools if tool.name == self.draft.tools[-1])


async def prove(
    drafts: Sequence[Draft],
    first: PlanSession,
    second: PlanSession,
    deadline: float,
    surroundings: Surroundings,
) -> list[Proven | Refusal]:
    """Play the plans of drafts in two sessions, in the second in reverse order.

    So a plan that needs what another one changed fails in one of them. Plans that are not played before
    `deadline`, a time of `time.monotonic()`, are refused with OUT_OF_TIME.
    """
    once, again = await asyncio.gather(
        _play_all(drafts, first, deadline, surroundings),
        _play_all(drafts[::-1], second, deadline, surroundings),
    )
    return [_agreed(*outcomes, surroundings) for outcomes in zip(drafts, once, again[::-1], strict=True)]


async def _play_all(
    drafts: Sequence[Draft], session: PlanSession, deadline: float, surroundings: Surroundings
) -> list[tuple[PlanRun, tuple[Tool, ...]] | Refusal]:
    """Play plans one after another; after a plan that broke a server, in a new session of it."""
    outcomes: list[tuple[PlanRun, tuple[Tool, ...]] | Refusal] = []
    for draft in drafts:
        if time.monotonic() > deadline:
            outcomes.append(OUT_OF_TIME)
            continue
        if session.has_failed(draft.servers):
            outcomes.append(Refusal("the server failed", "it failed again and again"))
            continue
        try:
            toolbox = await session.toolbox(draft.servers)
            played = await _play(draft, toolbox, surroundings)
            outcomes.append(played if isinstance(played, Refusal) else (played, tuple(toolbox.tools)))
        except (ToolsDown, ConnectFailed) as error:
            outcomes.append(Refusal("the server failed", str(error)))
            await session.drop(draft.servers)
    return outcomes


async def _play(draft: Draft, toolbox: Toolbox, surroundings: Surroundings) -> PlanRun | Refusal:
    try:
        if draft.changes_state:
            return await _play_change(draft, toolbox, surroundings)
        return await follow(draft.case, toolbox)
    except PlanFailed as error:
        return Refusal("the plan fails when repeated", str(error))


async def _play_change(draft: Draft, toolbox: Toolbox, surroundings: Surroundings) -> PlanRun | Refusal:
    """Play a plan whose probes must not all hold before it, and hold after it; then ask the witnesses."""
    expected = draft.case.conclude(()).probes
    if all_hold(expected, await asked(expected, toolbox)):
        return Refusal(THERE_BEFORE, str(expected))
    played = await follow(draft.case, toolbox)
    answers = await asked(_probed(draft, surroundings), toolbox)
    if not all_hold(expected, answers[: len(expected)]):
        return Refusal(NOT_SEEN, str(expected))
    return replace(played, probe_answers=tuple(answers))


def _probed(draft: Draft, surroundings: Surroundings) -> tuple[StateProbe, ...]:
    """Return the probes of a draft that changes something, then its witnesses."""
    expected = draft.case.conclude(()).probes
    return (*expected, *surroundings.witnesses(draft.servers, expected))


def _agreed(
    draft: Draft,
    once: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
    again: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
    surroundings: Surroundings,
) -> Proven | Refusal:
    if isinstance(once, Refusal):
        return once
    if isinstance(again, Refusal):
        return again
    first, second = once[0], again[0]
    if first.conclusion != second.conclusion:
        answers = f"{first.conclusion.answer.value!r}, then {second.conclusion.answer.value!r}"
        return Refusal("the answer differs between sessions", answers)
    if not draft.changes_state:
        return Proven(draft, first, second, once[1])
    asked_for = _probed(draft, surroundings)
    shown = surroundings.settled(asked_for, first.probe_answers, second.probe_answers)
    played = replace(first, probe_answers=tuple(answer for _, answer in shown))
    return Proven(draft, played, second, once[1], tuple(probe for probe, _ in shown))


async def confirm(
    proven: Sequence[Proven], session: PlanSession, surroundings: Surroundings
) -> list[Refusal | None]:
    """Play proven plans once more; return for each why it does not hold any more, None if it does."""
    outcomes = await _play_all([one.draft for one in proven], session, math.inf, surroundings)
    return [_why_moved(*pair, surroundings) for pair in zip(proven, outcomes, strict=True)]


def _why_moved(
    proven: Proven, outcome: tuple[PlanRun, tuple[Tool, ...]] | Refusal, surroundings: Surroundings
) -> Refusal | None:
    if isinstance(outcome, Refusal):
        return outcome
    before, now = proven.played.conclusion, outcome[0].conclusion
    if before != now:
        return Refusal(MOVED, f"{before.answer.value!r}, then {now.answer.value!r}")
    if not proven.draft.changes_state:
        return None
    answers = list(zip(_probed(proven.draft, surroundings), outcome[0].probe_answers, strict=True))
    for probe in proven.probes:
        [answer] = [answer for asked_for, answer in answers if asked_for == replace(probe, equals="")]
        if not probe.accepts(answer.content, is_error=answer.is_error):
            return Refusal(MOVED, f"{probe.tool} {dict(probe.arguments)}")
    return None


def judge(proven: Proven, task: Task, common: Sequence[str] = ()) -> Refusal | None:
    """Return why a proven draft is not a good task with this question; None if it is.

    `common` are the most common answers of its kind: those that it does not have must earn nothing.
    """
    played, draft = proven.played, proven.draft
    results = [result for turn in played.demonstration for result in turn.results]
    if any(CUT_MARK.search(result.content) for result in results):
        return Refusal("a result exceeds the budget")
    if not draft.changes_state and (refusal := _judge_answer(played, task.prompt[0].content)):
        return refusal
    text = played.demonstration[-1].text
    others = [] if draft.changes_state else [other for other in common if other != text]
    cheats = [
        *idle_cheats(played),
        *shortened(played),
        *(answering_instead(played, other) for other in others),
    ]
    why = why_unsound(task, (played, proven.again), proven.tools, cheats, is_success)
    return Refusal(why) if why else None


def _judge_answer(played: PlanRun, question: str) -> Refusal | None:
    """Return why the answer is not worth asking for, or could be known without all of the calls."""
    value, text = played.conclusion.answer.value, played.demonstration[-1].text
    if why := is_fit_answer(value, question):
        return Refusal(why, f"{text!r} to: {question}")
    if any(_is_stated_by(leaf, value, text) for call in calls_of(played) for leaf in leaves(call.arguments)):
        return Refusal("an argument is the answer", text)
    *earlier, _ = [result for turn in played.demonstration for result in turn.results]
    if any(_states(result.content, value, text) for result in earlier):
        return Refusal("a call is not needed: an earlier result states the answer", text)
    return None


def calls_of(played: PlanRun) -> list[ToolCall]:
    """Return the calls of a plan in order."""
    return [call for turn in played.demonstration for call in turn.calls]


def _states(content: str, value: Scalar, text: str) -> bool:
    """Return whether a result shows the answer; a small number is in many results by chance."""
    if isinstance(value, str):
        return len(text) > 2 and text in content
    if isinstance(value, int) and abs(value) < _LARGE:
        return False
    return any(_is_stated_by(scalar, value, text) for scalar in _scalars(document_of(content)))


def _scalars(document: Document) -> Iterator[Scalar]:
    yield from (field.value for field in document.fields)
    for table in document.tables:
        yield from (value for row in table.rows for value in row.values())


def _is_stated_by(found: Scalar, value: Scalar, text: str) -> bool:
    """Return whether a value is the answer, also as another spelling of the same number."""
    if isinstance(value, bool) or isinstance(found, bool):
        return found is value
    if isinstance(found, str) or isinstance(value, str):
        return str(found).strip() == text
    return found == value


def truth_of(proven: Proven) -> Truth:
    """Return what an episode must show: the answer or the change, and the calls that lead to it."""
    draft, conclusion = proven.draft, proven.played.conclusion
    needed = tuple(dict.fromkeys(draft.tools))
    return Truth(
        answer=None if draft.changes_state else conclusion.answer,
        writes=_writes(proven),
        probes=proven.probes,
        required_tools=needed,
        min_tool_calls=len(draft.tools),
        milestones=needed,
    )


def _writes(proven: Proven) -> tuple[ExpectedWrite, ...] | None:
    """Return the exact changes that the plan concludes with, if the servers say what only reads.

    Every call of a tool without that hint counts as a change: then more reading would fail an episode.
    """
    writes = proven.played.conclusion.writes
    changing = {tool.name for tool in proven.tools if not tool.is_read_only}
    made = [call.name for call in calls_of(proven.played) if call.name in changing]
    has_hints = not any(presumes_reading(tool) for tool in proven.tools if tool.name in changing)
    return writes if writes and has_hints and made == [write.tool for write in writes] else None
