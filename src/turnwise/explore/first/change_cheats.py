"""Episodes that change something other than a task asks for. They are played, and must earn nothing."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnwise.explore.first.surroundings import SideChange, Surroundings
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.follow import PlanRun, all_hold, asked
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import Cause, DemoTurn, ProbeResult, Task, Tool, ToolCall, ToolResult
from turnwise.types.protocols import Toolbox

WHOLE_RESULT = "writing more than the value earns it"
UNASKED_CHANGE = "changing something else as well earns it"
_NUM_TRIES = 3
"""Side changes of one kind that may turn out to have no effect."""


@dataclass(frozen=True, slots=True)
class ChangeCheat:
    """The turns of an episode that must earn nothing, and the change among them that was not asked for."""

    reason: str
    turns: tuple[DemoTurn, ...]
    side: SideChange | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for turn in self.turns for call in turn.calls)


def cheats_of(
    played: PlanRun, task: Task, server: str, surroundings: Surroundings
) -> Iterator[Sequence[ChangeCheat]]:
    """Yield groups of cheats, in the order in which they are tried until one of the group has an effect."""
    plan = played.demonstration
    if more := _writing_more(plan, task.prompt[0].content):
        yield [ChangeCheat(WHOLE_RESULT, more)]
    write = [call for turn in plan for call in turn.calls][-1]
    for sides in (
        surroundings.overwriting(write, server, task.truth.probes),
        surroundings.others(write, server),
    ):
        yield [
            ChangeCheat(UNASKED_CHANGE, (DemoTurn("", (side.call,)), *plan), side)
            for side in itertools.islice(sides, _NUM_TRIES)
        ]


def could_earn(cheat: ChangeCheat, task: Task, tools: Sequence[Tool]) -> bool:
    """Return whether a cheat succeeds if all of its calls are answered and all probes hold after it.

    If not, its calls alone fail it, and it need not be played.
    """
    turns = [
        replace(shown, results=tuple(ToolResult(call.id, "an answer", Cause.OK, 0.0) for call in shown.calls))
        for shown in cheat.turns
    ]
    return is_success(episode_of(task, turns, tools, is_done=True))


async def earns(cheat: ChangeCheat, task: Task, toolbox: Toolbox) -> bool | None:
    """Play a cheat in a fresh session, and return whether it succeeds; None if its side change has no effect.

    Raises ToolsDown or RewardDown if a server fails.
    """
    side = () if cheat.side is None else cheat.side.probes
    if side and all_hold(side, await asked(side, toolbox)):
        return None
    turns = []
    for shown in cheat.turns:
        results = await toolbox.call(shown.calls) if shown.calls else []
        turns.append(DemoTurn(shown.text, shown.calls, tuple(results)))
    if side and not all_hold(side, await asked(side, toolbox)):
        return None
    answers = await asked(task.truth.probes, toolbox)
    probes = tuple(
        ProbeResult(probe, answer.content, answer.is_error)
        for probe, answer in zip(task.truth.probes, answers, strict=True)
    )
    return is_success(replace(episode_of(task, turns, toolbox.tools, is_done=True), probes=probes))


def _writing_more(plan: Sequence[DemoTurn], question: str) -> tuple[DemoTurn, ...]:
    """Return the plan with whole results in place of the texts that it takes from them, if it takes any.

    A text that the question does not state is taken from the result before it.
    """
    turns: list[DemoTurn] = []
    result = ""
    for turn in plan:
        calls = [
            replace(call, arguments=_widened(call.arguments, result, question)) if result else call
            for call in turn.calls
        ]
        turns.append(DemoTurn(turn.text, tuple(calls)))
        result = turn.results[-1].content if turn.results else result
    is_other = any(turn.calls != shown.calls for turn, shown in zip(turns, plan, strict=True))
    return tuple(turns) if is_other else ()


def _widened(value: Any, result: str, question: str) -> Any:
    """Return an argument with a result in place of every text that the question does not state."""
    if isinstance(value, Mapping):
        return {name: _widened(item, result, question) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_widened(item, result, question) for item in value]
    if not isinstance(value, str) or not value or value in question:
        return value
    return result if result.strip() != value.strip() else f"{value}\n{value}"
