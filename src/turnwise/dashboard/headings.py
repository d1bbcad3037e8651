"""The sentence at the head of each view, made of figures; that on a run is in turnwise.run.answer."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.dashboard.index.short_text import shortened
from turnwise.run.answer import Change
from turnwise.system.terminal import counted
from turnwise.types import Stop

RECENT = 10
"""The steps in which an alarm is a reason to look, and over which groups are counted."""

_FAULTS = {"crashed": "This run crashed", "died": "This run died", "damaged": "This run's folder is damaged"}
_STOPS: dict[str, str] = {
    Stop.MAX_TURNS: "its turns were used up",
    Stop.REPEATED: "it repeated itself",
    Stop.TRUNCATED: "a turn was cut off",
    Stop.CONTEXT_FULL: "its tokens were used up",
    Stop.SLOW_CALLS: "its calls took too long",
}


def of_runs(runs: Sequence[tuple[str, float | None]], first: str = "") -> str:
    """On all runs, by name with their held-out success; `first` is the answer of the only one."""
    if not runs:
        return "No run in this folder yet."
    if len(runs) == 1:
        return first
    measured = [(success, name) for name, success in runs if success is not None]
    if not measured:
        return f"{len(runs)} runs; none is measured on held-out tasks after training yet."
    best = max(success for success, _ in measured)
    names = [name for success, name in measured if success == best]
    if len(names) > 1:
        return f"Best so far: {len(names)} runs with {_percent(best)} of held-out tasks."
    return f"Best so far: {names[0]}, with {_percent(best)} of held-out tasks."


def of_comparison(best: tuple[str, float] | None, gaps: Sequence[Change | None]) -> str:
    """On several runs: the best, and how far each other one is below it, where both are measured."""
    if best is None:
        return "Which is best cannot be said: no run is measured on held-out tasks after training."
    name, success = best
    words = f"{name} has {_percent(success)} of held-out tasks"
    known = [gap for gap in gaps if gap is not None]
    if not known:
        return f"{words}; no other run is measured on the same tasks."
    sure = sum(gap.sign > 0 for gap in known)
    if sure == len(known):
        others = "the other measured is" if sure == 1 else f"the {sure} others measured are"
        return f"{name} is best: {_percent(success)} of held-out tasks; {others} worse by more than chance."
    if not sure:
        return f"No run is best beyond chance: {words}, and none of the others is worse by more than that."
    verb = "is" if sure == 1 else "are"
    return f"{words}; {sure} of the {len(known)} others measured {verb} worse by more than chance."


def of_health(state: str, reason: str, groups: Sequence[Mapping[str, Any]], last_step: int | None) -> str:
    """On a run's alarms, given by kind, those that halted the run first."""
    if state == "halted":
        at = f" at step {groups[0]['last']}: {_meaning(groups[0])}" if groups else ""
        return f"An alarm stopped this run{at}."
    if state in _FAULTS:
        line = (reason.strip().splitlines() or [""])[0]
        return f"{_FAULTS[state]}{': ' + shortened(line, 200).rstrip('.') if line else ''}."
    if last_step is None:
        return "Too early to say: no step is finished yet."
    if not groups:
        return f"Healthy: no alarm has fired in {counted(last_step + 1, 'step')}."
    newest = max(groups, key=lambda group: int(group["last"]))
    if newest["last"] <= last_step - RECENT:
        return f"No alarm in the last {RECENT} steps; the last one fired at step {newest['last']}."
    worst = min(
        (group for group in groups if group["last"] > last_step - RECENT), key=lambda g: int(g["first"])
    )
    when = f"at step {worst['first']}" if worst["num"] == 1 else f"since step {worst['first']}"
    return f"Look at this: {when} {_meaning(worst)}."


def of_groups(kinds: Sequence[Mapping[str, int]]) -> str:
    """On the groups of each step, counted by whether all, some or none of their tries succeeded."""
    recent = kinds[-RECENT:]
    some, num = (
        sum(step["some"] for step in recent),
        sum(sum(step[key] for key in KINDS) for step in recent),
    )
    if not num:
        return "No group of training is played yet."
    when = f"the last {RECENT} steps" if len(kinds) > RECENT else "training so far"
    return f"In {when} {_percent(some / num)} of the groups could teach something."


KINDS = ("all", "some", "none")
"""Of groups: whether all, some or none of their tries succeeded."""


def of_group(successes: Sequence[bool | None], turns: Sequence[Sequence[str]]) -> str:
    """On the tries at one task; `turns` says of each what it did, turn by turn."""
    num, num_won = len(successes), sum(map(bool, successes))
    won = f"{num_won} of {num} {'try' if num == 1 else 'tries'} succeeded."
    ways = [
        1,
        *(len({tuple(done[:at]) for done in turns}) for at in range(1, max(map(len, turns), default=0) + 1)),
    ]
    if len(turns) < 2:
        return won
    if ways[-1] == 1:
        return f"{won} All did the same."
    gains = [after - before for before, after in itertools.pairwise(ways)]
    most = max(at for at, gain in enumerate(gains, start=1) if gain == max(gains))
    first = next(at for at, gain in enumerate(gains, start=1) if gain)
    firsts = [tuple(done[:first]) for done in turns]
    stray = num - max(firsts.count(way) for way in firsts)
    early = f", {'one' if stray == 1 else stray} already in turn {first}" if first < most else ""
    return f"{won} They part in turn {most}{early}."


def of_episode(
    is_success: bool | None, verdicts: Sequence[Mapping[str, Any]], stop: str, num_given: int = 0
) -> str:
    """On one episode: whether it is right, and what it said."""
    if num_given:
        return f"Started after {counted(num_given, 'turn')} of the plan: no success of the task."
    if is_success is None:
        return "Not judged: its reward could not be computed."
    if len(verdicts) > 1:
        held = sum(all(verdict["checks"].values()) for verdict in verdicts)
        return f"{'Right' if is_success else 'Wrong'}: {held} of {len(verdicts)} messages as asked."
    [verdict, *_] = [*verdicts, {"said": "", "expected": None, "checks": {}}]
    said = shortened(verdict["said"], 120).rstrip(".")
    if is_success:
        return f"Right: it said {said}." if said else "Right: it did what was asked."
    return f"Wrong: {_wrong(said, verdict, stop)}."


def _wrong(said: str, verdict: Mapping[str, Any], stop: str) -> str:
    if not said:
        return f"no answer; {_STOPS.get(stop) or 'it ended with ' + stop.replace('_', ' ')}"
    expected, failed = (
        verdict["expected"],
        [name for name, holds in verdict["checks"].items() if holds is False],
    )
    if expected is not None and (not failed or "answer" in failed):
        return f"it said {said}, expected {shortened(expected, 120).rstrip('.')}"
    missed = f", but did not meet the check “{shortened(failed[0], 60)}”" if failed else ""
    return f"it said {said}{missed}"


def of_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """On the calls of each tool."""
    calls, failed, infra = (
        sum(tool[key] for tool in tools) for key in ("num_calls", "num_errors", "num_infra")
    )
    if not calls:
        return "No tool was called."
    if not failed:
        return f"All {calls:,} calls succeeded."
    worst = max(tools, key=lambda tool: int(tool["num_errors"]))
    whose = {0: "all by the model's doing", failed: "all by infrastructure"}
    by = whose.get(infra, f"{infra:,} of them by infrastructure")
    most = (
        f", {worst['num_errors']:,} of them calls of {shortened(worst['tool'], 60)}" if len(tools) > 1 else ""
    )
    return f"{failed:,} of {calls:,} calls failed, {by}{most}."


def of_change(change: Change | None) -> str:
    """On two evaluations of the same tasks."""
    if change is None:
        return "No two evaluations have a task in common."
    before, after = change.shares
    if not change.sign:
        return f"No change beyond chance: {before} before, {after} after."
    return f"Success {'rose' if change.sign > 0 else 'fell'} from {before} to {after}, by more than chance."


def of_tasks(splits: Sequence[tuple[str, int]]) -> str:
    """On a recipe's task files: each split with its number of tasks."""
    if not splits:
        return "The run's recipe names no task file."
    parts = [f"{num:,} for {'the test' if split == 'test' else split}" for split, num in splits]
    return f"{counted(sum(num for _, num in splits), 'task')}: {', '.join(parts)}."


def of_log(levels: Sequence[str]) -> str:
    """On the shown lines of a log, by the level of each."""
    if not levels:
        return "The log is empty."
    where = f"the last {counted(len(levels), 'line')}" if len(levels) > 1 else "the only line"
    kinds = [(level, levels.count(level)) for level in ("error", "warning")]
    found = " and ".join(f"{counted(num, 'line')} of {level}s" for level, num in kinds if num)
    return f"{found[0].upper()}{found[1:]} in {where}." if found else f"No warning or error in {where}."


def of_exploration(num_tasks: int, num_used: int, num_tools: int, *, was_interrupted: bool = False) -> str:
    """On an exploration: how many tasks it proved, and of how many tools."""
    if not num_tasks:
        return f"No task was proved; {counted(num_tools, 'tool')} explored."
    early = " It was interrupted." if was_interrupted else ""
    verb = "use" if num_tasks > 1 else "uses"
    return f"{counted(num_tasks, 'proved task')} {verb} {num_used} of {counted(num_tools, 'tool')}.{early}"


def _meaning(group: Mapping[str, Any]) -> str:
    return shortened(str(group["meaning"] or group["said"] or group["name"]), 400).rstrip(".")


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%"
