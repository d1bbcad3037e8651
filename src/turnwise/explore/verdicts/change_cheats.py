"""Episodes that change something other than a task asks for. They are played, and must earn nothing."""

from dataclasses import dataclass, replace

from turnwise.explore.records import Call
from turnwise.explore.verdicts.proving import Proven
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.follow import asked
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import DemoTurn, ProbeResult, Task, ToolCall
from turnwise.types.protocols import Toolbox

_MOST = 6
"""Cheats that are played of one draft: the survey has tried the others on its probes."""


@dataclass(frozen=True, slots=True)
class ChangeCheat:
    """The turns of an episode that must earn nothing."""

    turns: tuple[DemoTurn, ...]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for turn in self.turns for call in turn.calls)


def cheats_of(proven: Proven) -> list[ChangeCheat]:
    """Return the plan with another call of the tool or another writer in place of a change, or one more.

    A further change is one that is known to have an effect: undoing first what is not there has none.
    """
    plan = proven.played.demonstration
    found: list[ChangeCheat] = []
    for change in proven.draft.program.changes:
        place = max(
            number
            for number, turn in enumerate(plan)
            if any(call.name == change.call.tool for call in turn.calls)
        )
        instead = (*change.mutations[:2], *change.other_writers[:1])
        found += [ChangeCheat((*plan[:place], _turn(other), *plan[place + 1 :])) for other in instead]
        found += [ChangeCheat((_turn(other), *plan)) for other in change.other_writers[-1:]]
    return found[:_MOST]


def _turn(call: Call) -> DemoTurn:
    return DemoTurn("", (ToolCall("other", call.tool, call.arguments),))


async def earns(cheat: ChangeCheat, task: Task, toolbox: Toolbox) -> bool:
    """Play a cheat in a fresh session, and return whether it succeeds. Raises ToolsDown or RewardDown."""
    turns = []
    is_refused = False
    for shown in cheat.turns:
        results = await toolbox.call(shown.calls) if shown.calls else []
        is_refused |= any(result.is_error for result in results)
        turns.append(replace(shown, results=tuple(results)))
    if is_refused:
        return False
    answers = await asked(task.truth.probes, toolbox)
    probes = tuple(
        ProbeResult(probe, answer.content, answer.is_error)
        for probe, answer in zip(task.truth.probes, answers, strict=True)
    )
    return is_success(replace(episode_of(task, turns, toolbox.tools, is_done=True), probes=probes))
