"""Whether a task's truth holds: its reference plan earns the reward, and no shortcut does."""

from collections.abc import Callable, Iterator, Sequence

from turnwise.tasks.plan import PlanRun
from turnwise.types import (
    Completion,
    DemoTurn,
    Finish,
    Parsed,
    ProbeResult,
    Stop,
    Task,
    Tool,
    Trajectory,
    Turn,
)

Earns = Callable[[Trajectory], bool]
"""Whether an episode earns the full reward, as `rewards.outcome.is_success` says."""
Cheat = tuple[str, tuple[DemoTurn, ...]]
"""A name, and the turns of an episode that must earn nothing."""

PLAN_EARNS_NOTHING = "its own plan earns nothing"
SHORTCUT_EARNS = "a shortcut earns it"


def why_unsound(
    task: Task, runs: Sequence[PlanRun], tools: Sequence[Tool], cheats: Sequence[Cheat], earns: Earns
) -> str:
    """Return why the truth does not hold; empty if every run of the plan earns the reward, and no cheat."""
    for played in runs:
        if not earns(episode_of(task, played.demonstration, tools, is_done=True)):
            return PLAN_EARNS_NOTHING
    for name, turns in cheats:
        if earns(episode_of(task, turns, tools, is_done=False)):
            return f"{SHORTCUT_EARNS}: {name}"
    return ""


def idle_cheats(played: PlanRun) -> list[Cheat]:
    """Return episodes without a call: no answer, and the answer at once."""
    return [
        ("an empty answer", (DemoTurn(""),)),
        ("the answer without a call", (played.demonstration[-1],)),
    ]


def shortened(played: PlanRun) -> Iterator[Cheat]:
    """Yield the plan without one of its calls, once for every call."""
    for place, turn in enumerate(played.demonstration):
        for index in range(len(turn.calls)):
            turns = [
                _without(shown, index) if number == place else shown
                for number, shown in enumerate(played.demonstration)
            ]
            yield "one call left out", tuple(shown for shown in turns if shown.calls or shown.text)


def answering_instead(played: PlanRun, text: str) -> Cheat:
    """Return the plan with another answer."""
    return f"another answer, {text!r}", (*played.demonstration[:-1], DemoTurn(text))


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
            ProbeResult(probe, probe.contains if is_done else probe.lacks, is_error=False)
            for probe in task.truth.probes
        ),
    )
