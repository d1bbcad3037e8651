"""Whether a draft is a task: its plan reproduces its answer in fresh sessions, and no shortcut earns it."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.program import flat
from turnwise.explore.reading import read
from turnwise.explore.records import Call, Scalar
from turnwise.explore.verdicts.answers import is_fit_answer
from turnwise.explore.verdicts.plan_session import PlanSession
from turnwise.explore.verdicts.refusal import MOVED, NOT_SEEN, OUT_OF_TIME, THERE_BEFORE, Refusal
from turnwise.explore.verdicts.today import DEPENDS, names_today
from turnwise.explore.verdicts.witnesses import Witnesses
from turnwise.mcp.calls.results import CUT_MARK
from turnwise.mcp.session import ConnectFailed
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.follow import PlanFailed, PlanRun, ToolsDown, all_hold, asked, follow
from turnwise.tasks.proof.verdict import answering_instead, idle_cheats, shortened, why_unsound
from turnwise.types import StateProbe, Task, Tool, ToolCall, Truth
from turnwise.types.protocols import Toolbox

_LARGE = 100
"""Smaller whole numbers are in many results by chance."""


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


async def prove(
    drafts: Sequence[Draft],
    first: PlanSession,
    second: PlanSession,
    deadline: float,
    witnesses: Witnesses,
) -> list[Proven | Refusal]:
    """Play the plans of drafts in two sessions, in the second in reverse order.

    So a plan that needs what another one changed fails in one of them. Plans that are not played before
    `deadline`, a time of `time.monotonic()`, are refused with OUT_OF_TIME.
    """
    once, again = await asyncio.gather(
        _play_all(drafts, first, deadline, witnesses),
        _play_all(drafts[::-1], second, deadline, witnesses),
    )
    return [_agreed(*outcomes, witnesses) for outcomes in zip(drafts, once, again[::-1], strict=True)]


async def _play_all(
    drafts: Sequence[Draft], session: PlanSession, deadline: float, witnesses: Witnesses
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
            played = await _play(draft, toolbox, witnesses)
            outcomes.append(played if isinstance(played, Refusal) else (played, tuple(toolbox.tools)))
        except (ToolsDown, ConnectFailed) as error:
            outcomes.append(Refusal("the server failed", str(error)))
            await session.drop(draft.servers)
    return outcomes


async def _play(draft: Draft, toolbox: Toolbox, witnesses: Witnesses) -> PlanRun | Refusal:
    try:
        if draft.changes_state:
            return await _play_change(draft, toolbox, witnesses)
        return await follow(draft.case, toolbox)
    except PlanFailed as error:
        return Refusal("the plan fails when repeated", str(error))


async def _play_change(draft: Draft, toolbox: Toolbox, witnesses: Witnesses) -> PlanRun | Refusal:
    """Play a plan whose probes must not all hold before it, and hold after it; then ask the witnesses.

    A probe that expects nothing yet must answer differently afterwards: that is what it will expect.
    """
    expected = draft.case.conclude(()).probes
    before = await asked(expected, toolbox)
    if any(map(_expects, expected)) and all_hold(expected, before):
        return Refusal(THERE_BEFORE, str(expected))
    played = await follow(draft.case, toolbox)
    answers = await asked(_probed(draft, witnesses), toolbox)
    is_other = all(
        _expects(probe) or one.content != other.content
        for probe, one, other in zip(expected, before, answers, strict=False)
    )
    if not is_other or not all_hold(expected, answers[: len(expected)]):
        return Refusal(NOT_SEEN, str(expected)[:300])
    return replace(played, probe_answers=tuple(answers))


def _expects(probe: StateProbe) -> bool:
    return bool(probe.contains or probe.lacks or probe.equals)


def _probed(draft: Draft, witnesses: Witnesses) -> tuple[StateProbe, ...]:
    """Return the probes of a draft that changes something, then its witnesses."""
    expected = draft.case.conclude(()).probes
    return (*expected, *witnesses.of(draft.servers, expected))


def _agreed(
    draft: Draft,
    once: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
    again: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
    witnesses: Witnesses,
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
    asked_for = _probed(draft, witnesses)
    shown = witnesses.settled(asked_for, first.probe_answers, second.probe_answers)
    played = replace(first, probe_answers=tuple(answer for _, answer in shown))
    return Proven(draft, played, second, once[1], tuple(probe for probe, _ in shown))


async def confirm(
    proven: Sequence[Proven], session: PlanSession, witnesses: Witnesses
) -> list[Refusal | None]:
    """Play proven plans once more; return for each why it does not hold any more, None if it does."""
    outcomes = await _play_all([one.draft for one in proven], session, math.inf, witnesses)
    return [_why_moved(*pair, witnesses) for pair in zip(proven, outcomes, strict=True)]


def _why_moved(
    proven: Proven, outcome: tuple[PlanRun, tuple[Tool, ...]] | Refusal, witnesses: Witnesses
) -> Refusal | None:
    if isinstance(outcome, Refusal):
        return outcome
    before, now = proven.played.conclusion, outcome[0].conclusion
    if before != now:
        return Refusal(MOVED, f"{before.answer.value!r}, then {now.answer.value!r}")
    if not proven.draft.changes_state:
        return None
    answers = list(zip(_probed(proven.draft, witnesses), outcome[0].probe_answers, strict=True))
    for probe in proven.probes:
        answer = next(
            answer
            for asked_for, answer in answers
            if (asked_for.tool, asked_for.arguments) == (probe.tool, probe.arguments)
        )
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
    given = f"{task.prompt[0].content} {[call.arguments for call in calls_of(played)]}"
    if not draft.changes_state and any(names_today(result.content, given) for result in results):
        return Refusal(DEPENDS)
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
    if any(_is_stated_by(leaf, value, text) for call in calls_of(played) for leaf in _leaves(call)):
        return Refusal("an argument is the answer", text)
    *earlier, _ = [result for turn in played.demonstration for result in turn.results]
    if any(_states(result.content, value, text) for result in earlier):
        return Refusal("a call is not needed: an earlier result states the answer", text)
    return None


def _leaves(call: ToolCall) -> list[Scalar]:
    values = flat(call.arguments).values()
    return [leaf for value in values for leaf in (value if isinstance(value, list) else [value])]


def calls_of(played: PlanRun) -> list[ToolCall]:
    """Return the calls of a plan in order."""
    return [call for turn in played.demonstration for call in turn.calls]


def _states(content: str, value: Scalar, text: str) -> bool:
    """Return whether a result shows the answer; a small number is in many results by chance."""
    if isinstance(value, str):
        return len(text) > 2 and text in content
    if isinstance(value, int) and abs(value) < _LARGE:
        return False
    cells = (cell for relation in read(Call("", "", {}), content) for row in relation.rows for cell in row)
    return any(cell is not None and _is_stated_by(cell, value, text) for cell in cells)


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
        probes=proven.probes,
        required_tools=needed,
        min_tool_calls=len(draft.tools),
        milestones=needed,
    )
