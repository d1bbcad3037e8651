"""Episodes that change something other than a task asks for. They are played, and must earn nothing."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnwise.explore.programs.program import flat
from turnwise.explore.records import Call, Change
from turnwise.explore.verdicts.proving import Proven
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.follow import asked
from turnwise.tasks.proof.verdict import episode_of
from turnwise.types import DemoTurn, ProbeResult, Task, ToolCall
from turnwise.types.protocols import Toolbox

_MUTATIONS = 4
_MOST = 5
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
    shown = "\n".join(f"{probe.equals}\n{probe.contains}" for probe in proven.probes)
    by_change: list[list[ChangeCheat]] = []
    for change in proven.draft.program.changes:
        place = _place(change, plan)
        unseen = sorted(change.mutations, key=lambda other: _is_seen(change.call, other, shown))
        instead = (*unseen[:1], *change.other_writers[:1], *unseen[1:_MUTATIONS])
        found = [ChangeCheat((*plan[:place], _turn(other), *plan[place + 1 :])) for other in instead]
        by_change.append(
            [
                *found[:2],
                *(ChangeCheat((_turn(other), *plan)) for other in change.other_writers[-1:]),
                *found[2:],
            ]
        )
    turns = itertools.zip_longest(*by_change)
    return [cheat for some in turns for cheat in some if cheat is not None][:_MOST]


def _place(change: Change, plan: Sequence[DemoTurn]) -> int:
    """Return the number of the turn that makes a change: the last one of its tool if arguments were read."""
    own = [
        number for number, turn in enumerate(plan) if any(one.name == change.call.tool for one in turn.calls)
    ]
    same = [
        number
        for number in own
        if any(Call("", one.name, one.arguments) == change.call for one in plan[number].calls)
    ]
    return (same or own)[-1]


def _is_seen(call: Call, other: Call, shown: str) -> bool:
    """Return whether the probes show the value that the other call has changed."""
    own, changed = flat(call.arguments), flat(other.arguments)
    return all(str(value) in shown for name, value in own.items() if changed.get(name) != value)


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
