"""Whether a draft is a task: its plan reproduces its answer in fresh sessions, and no shortcut earns it."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.answers import is_fit_answer
from turnwise.explore.document import Document, Scalar, document_of
from turnwise.explore.draft import Draft
from turnwise.explore.entities import leaves
from turnwise.explore.plan_session import PlanSession
from turnwise.mcp.session import ConnectFailed
from turnwise.protocols import Toolbox
from turnwise.rewards.outcome import is_success
from turnwise.tasks.plan import PlanFailed, PlanRun, ToolsDown, follow, holds
from turnwise.tasks.verdict import answering_instead, idle_cheats, shortened, why_unsound
from turnwise.types import Task, Tool, ToolCall, Truth

_CUT = "characters cut ...]"
"""Part of the mark that a result cut to its budget has."""
_LARGE = 100
"""Smaller whole numbers are in many results by chance."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a draft is not a task: a reason that can be counted, and the details."""

    reason: str
    details: str = ""


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


async def prove(
    drafts: Sequence[Draft], first: PlanSession, second: PlanSession, deadline: float
) -> list[Proven | Refusal]:
    """Play the plans of drafts in two sessions, in the second in reverse order.

    So a plan that needs what another one changed fails in one of them. Plans that are not played before
    `deadline`, a time of `time.monotonic()`, are refused with OUT_OF_TIME.
    """
    once, again = await asyncio.gather(
        _play_all(drafts, first, deadline), _play_all(drafts[::-1], second, deadline)
    )
    return [_agreed(*outcomes) for outcomes in zip(drafts, once, again[::-1], strict=True)]


async def _play_all(
    drafts: Sequence[Draft], session: PlanSession, deadline: float
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
            played = await _play(draft, toolbox)
            outcomes.append(played if isinstance(played, Refusal) else (played, tuple(toolbox.tools)))
        except (ToolsDown, ConnectFailed) as error:
            outcomes.append(Refusal("the server failed", str(error)))
            await session.drop(draft.servers)
    return outcomes


async def _play(draft: Draft, toolbox: Toolbox) -> PlanRun | Refusal:
    try:
        if draft.changes_state:
            return await _play_change(draft, toolbox)
        return await follow(draft.case, toolbox)
    except PlanFailed as error:
        return Refusal("the plan fails when repeated", str(error))


async def _play_change(draft: Draft, toolbox: Toolbox) -> PlanRun | Refusal:
    """Play a plan whose probes must fail before it and hold after it."""
    expected = draft.case.conclude(()).probes
    for probe in expected:
        if await holds(probe, toolbox):
            return Refusal("the change is there before it was made", probe.contains)
    played = await follow(draft.case, toolbox)
    for probe in expected:
        if not await holds(probe, toolbox):
            return Refusal("the change cannot be seen", probe.contains)
    return played


def _agreed(
    draft: Draft,
    once: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
    again: tuple[PlanRun, tuple[Tool, ...]] | Refusal,
) -> Proven | Refusal:
    if isinstance(once, Refusal):
        return once
    if isinstance(again, Refusal):
        return again
    first, second = once[0], again[0]
    if first.conclusion != second.conclusion:
        answers = f"{first.conclusion.answer.value!r}, then {second.conclusion.answer.value!r}"
        return Refusal("the answer differs between sessions", answers)
    return Proven(draft, first, second, once[1])


def judge(proven: Proven, task: Task, common: Sequence[str] = ()) -> Refusal | None:
    """Return why a proven draft is not a good task with this question; None if it is.

    `common` are the most common answers of its kind: those that it does not have must earn nothing.
    """
    played, draft = proven.played, proven.draft
    results = [result for turn in played.demonstration for result in turn.results]
    if any(_CUT in result.content for result in results):
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
        probes=conclusion.probes,
        required_tools=needed,
        min_tool_calls=len(draft.tools),
        milestones=needed,
    )


_SAME_ANSWER = 2
"""Tasks of one shape and the same tools that may have the same answer."""
_SAME_IN_SHAPE = 4
_SHARE_IN_SHAPE = 0.08
"""Tasks of one shape that may have the same answer: this many, or this share of its tasks."""
_NUM_COMMON = 3


class AnswerCounts:
    """Refuses answers that could be guessed because many tasks have them, and tasks that repeat others."""

    def __init__(self) -> None:
        self._of_kind: Counter[tuple[str, ...]] = Counter()
        self._of_shape: dict[str, Counter[str]] = {}
        self._programs: set[str] = set()

    def common(self, shape: str) -> list[str]:
        """Return the most common answers of a shape so far."""
        return [text for text, _ in self._of_shape.get(shape, Counter()).most_common(_NUM_COMMON)]

    def refuse(self, proven: Proven) -> Refusal | None:
        """Return why the answer or the program is there too often already."""
        draft, text = proven.draft, proven.played.demonstration[-1].text
        if program_key(proven) in self._programs:
            return Refusal("another task makes the same calls and has the same answer")
        if draft.changes_state:
            return None
        answers = self._of_shape.get(draft.shape, Counter[str]())
        most = max(_SAME_IN_SHAPE, int(_SHARE_IN_SHAPE * answers.total()))
        if self._of_kind[draft.shape, *draft.tools, text] >= _SAME_ANSWER or answers[text] >= most:
            return Refusal("its answer is common among tasks of its kind", text)
        return None

    def add(self, proven: Proven) -> None:
        """Count an accepted task."""
        draft, text = proven.draft, proven.played.demonstration[-1].text
        self._programs.add(program_key(proven))
        if not draft.changes_state:
            self._of_kind[draft.shape, *draft.tools, text] += 1
            self._of_shape.setdefault(draft.shape, Counter())[text] += 1


def program_key(proven: Proven) -> str:
    """Return the same text for programs that differ only in the order of calls or operands, or in a sign."""
    calls = sorted((call.name, *_operands(call.arguments)) for call in calls_of(proven.played))
    value = proven.played.conclusion.answer.value
    if len(calls) > 1 and isinstance(value, int | float):
        value = abs(value)  # the difference the other way round
    return json.dumps([calls, "" if proven.draft.changes_state else value])


def _operands(arguments: Mapping[str, object]) -> list[str]:
    return sorted(str(leaf) for leaf in leaves(arguments))
