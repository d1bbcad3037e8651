"""Whether a task's truth holds: its reference plan earns the reward, and no shortcut does."""

from collections.abc import Callable, Iterator, Sequence

from turnwise.tasks.proof.follow import PlanRun
from turnwise.tasks.user_side import UserSide
from turnwise.types import (
    Cause,
    Completion,
    DemoTurn,
    Finish,
    Parsed,
    ProbeResult,
    Stop,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)

Earns = Callable[[Trajectory], bool]
"""Whether an episode earns the full reward, as `rewards.outcome.is_success` says."""
Cheat = tuple[str, tuple[DemoTurn, ...]]
"""A name, and the turns of an episode that must earn nothing."""
IsNeeded = Callable[[ToolCall, ToolResult], bool]
"""Whether a plan without this call must earn nothing."""

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
        # The cheats of a conversation make most of the plan's changes. What they did and said must fail them
        # even if the probes hold.
        if earns(episode_of(task, turns, tools, is_done=bool(task.conversation))):
            return f"{SHORTCUT_EARNS}: {name}"
    return ""


def every_call(call: ToolCall, result: ToolResult) -> bool:
    del call, result
    return True


def idle_cheats(played: PlanRun) -> list[Cheat]:
    """Return episodes without a call: no answer, and the answer at once if the plan makes calls."""
    empty = ("an empty answer", (DemoTurn(""),))
    if not any(turn.calls for turn in played.demonstration):
        return [empty]
    return [empty, ("the answer without a call", (played.demonstration[-1],))]


def needless_calls(played: PlanRun, forbidden: Sequence[str]) -> Iterator[Cheat]:
    """Yield the plan with a successful call of each forbidden tool before its first turn."""
    for name in forbidden:
        call = ToolCall("needless", name, {})
        turn = DemoTurn("", (call,), (ToolResult(call.id, "", Cause.OK, 0.0),))
        yield "a call where none is due", (turn, *played.demonstration)


def shortened(played: PlanRun, is_needed: IsNeeded = every_call) -> Iterator[Cheat]:
    """Yield the plan without one of its needed calls, once for each of them."""
    for place, turn in enumerate(played.demonstration):
        for index, pair in enumerate(zip(turn.calls, turn.results, strict=True)):
            if not is_needed(*pair):
                continue
            turns = [
                without_call(shown, index) if number == place else shown
                for number, shown in enumerate(played.demonstration)
            ]
            yield "one call left out", tuple(shown for shown in turns if shown.calls or shown.text)


def answering_instead(played: PlanRun, text: str) -> Cheat:
    """Return the plan with another answer."""
    return f"another answer, {text!r}", (*played.demonstration[:-1], DemoTurn(text))


def without_call(turn: DemoTurn, index: int) -> DemoTurn:
    """Return the turn without one of its calls."""
    return DemoTurn(
        turn.text,
        (*turn.calls[:index], *turn.calls[index + 1 :]),
        (*turn.results[:index], *turn.results[index + 1 :]),
    )


def episode_of(task: Task, turns: Sequence[DemoTurn], tools: Sequence[Tool], *, is_done: bool) -> Trajectory:
    """Return the episode that these turns make with the task's user; `is_done` says what its probes show.

    It ends where the user ends it. Turns that stop before are those of an episode that was cut off.
    """
    user = UserSide(task, tools)
    played: list[Turn] = []
    endings: list[Stop] = []
    said = ""
    for shown in turns:
        parsed, results = Parsed(shown.text, calls=shown.calls), _results(shown, tools, user.tools)
        completion = Completion((), (), Finish.STOP, 0)
        played.append(Turn((), completion, parsed, results, user=said, message=user.message))
        ending, message = user.answer(parsed, results)
        said = message.text if message is not None else ""
        if ending is not None:
            endings.append(ending)
        if ending is not None and message is None:
            break
    is_ended = len(endings) == len(task.truths)
    return Trajectory(
        task=task,
        episode_id=task.id,
        seed=0,
        turns=tuple(played),
        stop=endings[-1] if is_ended else Stop.MAX_TURNS,
        tools=tuple(tools),
        probes=tuple(
            ProbeResult(probe, probe.expected if is_done else probe.lacks, is_error=False, message=message)
            for message, truth in enumerate(task.truths[: len(endings)])
            for probe in truth.probes
        ),
        endings=tuple(endings[:-1] if is_ended else endings),
    )


def _results(turn: DemoTurn, tools: Sequence[Tool], offered: Sequence[Tool]) -> tuple[ToolResult, ...]:
    """Return a turn's results; a call to a tool that is not offered with this message is refused."""
    hidden = {tool.name for tool in tools} - {tool.name for tool in offered}
    return tuple(
        ToolResult(call.id, "error: no such tool", Cause.UNKNOWN_TOOL, 0.0) if call.name in hidden else result
        for call, result in zip(turn.calls, turn.results, strict=True)
    )
