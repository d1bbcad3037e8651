"""Whether a draft is a task: its plan reproduces its answer in fresh sessions, and no shortcut earns it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.explore.answers import is_fit_answer
from turnwise.explore.draft import Draft
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.protocols import Toolbox
from turnwise.rewards.outcome import is_success
from turnwise.tasks.plan import PlanFailed, PlanRun, ToolsDown, follow, holds
from turnwise.types import (
    Completion,
    DemoTurn,
    Finish,
    Parsed,
    ProbeResult,
    Stop,
    Task,
    Tool,
    ToolCall,
    Trajectory,
    Truth,
    Turn,
)

_CUT = "characters cut ...]"
"""Part of the mark that a result cut to its budget has."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a draft is not a task: a reason that can be counted, and the details."""

    reason: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """A draft whose plan came to the same conclusion twice."""

    draft: Draft
    played: PlanRun
    tools: tuple[Tool, ...]
    """The tools that an episode of it is offered."""


async def prove(drafts: Sequence[Draft], pool: Pool, episode_id: str) -> list[Proven | Refusal]:
    """Play the plans of drafts that use the same servers in two fresh sessions, the second in reverse order.

    So a plan that needs what another one changed fails in one of them.
    """
    servers = drafts[0].servers
    try:
        async with pool.lease(servers, f"{episode_id}/first") as toolbox:
            tools = tuple(toolbox.tools)
            first = [await _play(draft, toolbox) for draft in drafts]
        async with pool.lease(servers, f"{episode_id}/second") as toolbox:
            second = [await _play(draft, toolbox) for draft in reversed(drafts)]
    except ConnectFailed as error:
        return [Refusal("the server failed", str(error)) for _ in drafts]
    return [
        _agreed(draft, one, other, tools)
        for draft, one, other in zip(drafts, first, reversed(second), strict=True)
    ]


async def _play(draft: Draft, toolbox: Toolbox) -> PlanRun | Refusal:
    try:
        if draft.changes_state:
            return await _play_change(draft, toolbox)
        return await follow(draft.case, toolbox)
    except PlanFailed as error:
        return Refusal("the plan fails when repeated", str(error))
    except ToolsDown as error:
        return Refusal("the server failed", str(error))


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
    draft: Draft, first: PlanRun | Refusal, second: PlanRun | Refusal, tools: tuple[Tool, ...]
) -> Proven | Refusal:
    if isinstance(first, Refusal):
        return first
    if isinstance(second, Refusal):
        return second
    if first.conclusion != second.conclusion:
        answers = f"{first.conclusion.answer.value!r}, then {second.conclusion.answer.value!r}"
        return Refusal("the answer differs between sessions", answers)
    return Proven(draft, first, tools)


def judge(proven: Proven, task: Task) -> Refusal | None:
    """Return why a proven draft is not a good task with this question; None if it is."""
    played, draft = proven.played, proven.draft
    results = [result for turn in played.demonstration for result in turn.results]
    if any(_CUT in result.content for result in results):
        return Refusal("a result exceeds the budget")
    if not draft.changes_state and (refusal := _judge_answer(played, task.prompt[0].content)):
        return refusal
    if not is_success(episode_of(task, played.demonstration, proven.tools, is_done=True)):
        return Refusal("its own plan earns nothing")
    for name, turns in cheats(played):
        if is_success(episode_of(task, turns, proven.tools, is_done=False)):
            return Refusal(f"a shortcut earns it: {name}")
    return None


def _judge_answer(played: PlanRun, question: str) -> Refusal | None:
    """Return why the answer is not worth asking for, or could be known without all of the calls."""
    text = played.demonstration[-1].text
    if why := is_fit_answer(played.conclusion.answer.value, question):
        return Refusal(why, f"{text!r} to: {question}")
    if text in (str(value) for call in _calls(played) for value in call.arguments.values()):
        return Refusal("an argument is the answer", text)
    results = [result for turn in played.demonstration for result in turn.results]
    if any(_states(result.content, text) for result in results[:-1]):
        return Refusal("a call is not needed: an earlier result states the answer", text)
    return None


def _calls(played: PlanRun) -> list[ToolCall]:
    return [call for turn in played.demonstration for call in turn.calls]


def _states(content: str, text: str) -> bool:
    """Return whether a result shows the answer; a short number is in many results by chance."""
    return len(text) > 2 and text in content


def cheats(played: PlanRun) -> list[tuple[str, tuple[DemoTurn, ...]]]:
    """Return episodes that must earn nothing: no answer, the answer at once, one call left out."""
    last = played.demonstration[-1]
    found: list[tuple[str, tuple[DemoTurn, ...]]] = [
        ("an empty answer", (DemoTurn(""),)),
        ("the answer without a call", (last,)),
    ]
    calls = [
        (turn, index)
        for turn in range(len(played.demonstration))
        for index in range(len(played.demonstration[turn].calls))
    ]
    for left_out in calls:
        turns = tuple(
            _without(turn, left_out[1]) if number == left_out[0] else turn
            for number, turn in enumerate(played.demonstration)
        )
        found.append(("one call left out", tuple(turn for turn in turns if turn.calls or turn.text)))
    return found


def _without(turn: DemoTurn, index: int) -> DemoTurn:
    return DemoTurn(
        turn.text,
        (*turn.calls[:index], *turn.calls[index + 1 :]),
        (*turn.results[:index], *turn.results[index + 1 :]),
    )


def episode_of(task: Task, turns: Sequence[DemoTurn], tools: Sequence[Tool], *, is_done: bool) -> Trajectory:
    """Return the episode that these turns make; `is_done` says what its probes would show."""
    return Trajectory(
        task=task,
        episode_id=task.id,
        seed=0,
        turns=tuple(
            Turn((), Completion((), (), Finish.STOP, 0), Parsed(turn.text, calls=turn.calls), turn.results)
            for turn in turns
        ),
        stop=Stop.ANSWERED,
        tools=tuple(tools),
        probes=tuple(
            ProbeResult(probe, probe.contains if is_done else "", is_error=False)
            for probe in task.truth.probes
        ),
    )


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


class CommonAnswers:
    """Refuses answers that could be guessed because many tasks of the same kind have them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()

    def is_common(self, proven: Proven) -> bool:
        """Return whether two tasks of the same shape and tools have this answer already; count it if not."""
        if proven.draft.changes_state:
            return False
        kind = (proven.draft.shape, *proven.draft.tools, str(proven.played.conclusion.answer.value))
        if self._counts[kind] >= _SAME_ANSWER:
            return True
        self._counts[kind] += 1
        return False

    def count(self, task: Task) -> None:
        """Count the answer of a task that was accepted before."""
        if task.truth.answer is not None:
            tools = (call.name for turn in task.demonstration for call in turn.calls)
            self._counts[task.family, *tools, str(task.truth.answer.value)] += 1


_SAME_ANSWER = 2
