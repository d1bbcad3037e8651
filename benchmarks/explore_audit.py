"""Audit task files on real servers: every reference plan must earn reward 1, and every cheat 0.

Nothing of the exploration is used: only the written files, mcp.json and the `outcome` reward.

    python -m benchmarks.explore_audit tasks --mcp mcp.json

Cheats of a task:
    nothing     an empty answer, without a call
    at once     the true answer, without a call
    common      the plan's calls, then the most common other answer of the task's family
    left out    the plan without one of its calls, then the true answer; once for every call
    changed     of a task that changes something: the plan with another value of one argument of its last
                call, a value of another task's call of the tool where there is one
    foreign     of a task that changes something: the last call of another such task in place of its own

Exit code: 0 no violation, 1 violations or episodes that could not be played, 2 wrong usage.
"""

import argparse
import asyncio
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import load as load_specs
from turnwise.rewards.outcome import asks_something, is_success
from turnwise.rollout.conversation import Conversation
from turnwise.rollout.players.policy import EpisodeLimits, finish_episode, with_call_ids
from turnwise.tasks.load import load as load_tasks
from turnwise.types import Completion, DemoTurn, Finish, Parsed, Stop, Task, ToolCall, Trajectory, Turn

SPLITS = ("train", "validation", "test")
NUM_ATTEMPTS = 2
"""An episode that a server failed in is played once more before it counts as not played."""
Script = tuple[DemoTurn, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A script for a task, and whether it must succeed."""

    task: Task
    kind: str
    script: Script
    must_succeed: bool


@dataclass(frozen=True, slots=True)
class Violation:
    """A script with the wrong reward, or one that could not be played."""

    trial: Trial
    message: str

    def __str__(self) -> str:
        task = self.trial.task
        return f"{task.split} {task.id} ({task.family}), {self.trial.kind}: {self.message}"


def trials_of(tasks: Sequence[Task]) -> Iterator[Trial]:
    """Yield every script of every task."""
    common = common_answers(tasks)
    for task in tasks:
        plan = calls_only(task.demonstration)
        *turns, last = plan
        yield Trial(task, "reference plan", plan, True)
        yield Trial(task, "nothing", (DemoTurn(""),), False)
        yield Trial(task, "at once", (last,), False)
        other = next((text for text in common[task.family] if text != last.text), None)
        if task.truth.answer is not None and other is not None:
            yield Trial(task, f"common answer {other!r}", (*turns, DemoTurn(other)), False)
        for number in range(sum(len(turn.calls) for turn in turns)):
            shorter, left_out = without_call(turns, number)
            yield Trial(task, f"left out {left_out.name}", (*shorter, last), False)
        if task.truth.probes:
            yield from other_changes(task, plan, tasks)


def other_changes(task: Task, plan: Script, tasks: Sequence[Task]) -> Iterator[Trial]:
    """Yield plans that change something else than the task asks for."""
    *turns, writing, last = plan
    [*earlier, write] = writing.calls
    writers = [one.demonstration[-2].calls[-1] for one in tasks if one.truth.probes]
    for name, value in write.arguments.items():
        known = [other.arguments.get(name) for other in writers if other.name == write.name]
        for changed in another(value, known):
            call = replace(write, arguments={**write.arguments, name: changed})
            script = (*turns, replace(writing, calls=(*earlier, call)), last)
            yield Trial(task, f"changed {write.name} {name} to {changed!r}", script, False)
    foreign = [one for one in writers if one.name != write.name and set(one.arguments) & set(write.arguments)]
    for call in foreign[:2]:
        yield Trial(task, f"foreign {call.name}", (*turns, DemoTurn("", (call,)), last), False)


def another(value: object, known: Sequence[object]) -> Iterator[object]:
    """Yield another value for an argument; of a list or an object, one with a part that differs."""
    others = [one for one in known if one is not None and one != value and type(one) is type(value)]
    if others:
        yield others[0]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value} 2"
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from ({**value, name: changed} for changed in another(part, ()))
    elif isinstance(value, list) and value:
        yield from ([changed, *value[1:]] for changed in another(value[0], ()))


def calls_only(demonstration: Sequence[DemoTurn]) -> Script:
    """Return the demonstration without its recorded results; ValueError if it does not end in an answer."""
    if not demonstration or demonstration[-1].calls:
        raise ValueError("the demonstration does not end with an answer")
    return tuple(DemoTurn(turn.text, turn.calls) for turn in demonstration)


def common_answers(tasks: Sequence[Task]) -> Mapping[str, Sequence[str]]:
    """Return every family's answers, the most common first; at the same count, by first appearance."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        if task.truth.answer is not None:
            counts[task.family][task.demonstration[-1].text] += 1
    return defaultdict(tuple, {family: [text for text, _ in c.most_common()] for family, c in counts.items()})


def without_call(turns: Sequence[DemoTurn], number: int) -> tuple[Script, ToolCall]:
    """Return the turns without the call of that number, and the call; a turn without calls is dropped."""
    kept: list[DemoTurn] = []
    left_out: list[ToolCall] = []
    position = 0
    for turn in turns:
        calls: list[ToolCall] = []
        for call in turn.calls:
            (left_out if position == number else calls).append(call)
            position += 1
        if calls:
            kept.append(DemoTurn(turn.text, tuple(calls)))
    return tuple(kept), left_out[0]


async def play(trial: Trial, pool: Pool, episode_id: str) -> Trajectory:
    """Play a script as an episode in a session of its own. A call that fails does not end it."""
    task = trial.task
    servers = task.servers or tuple(dict.fromkeys(tool.server for tool in pool.tools))

    async def act(conversation: Conversation) -> Stop:
        for number, shown in enumerate(trial.script):
            parsed = with_call_ids(Parsed(text=shown.text, calls=shown.calls), number)
            message = conversation.message
            turn = Turn((), Completion((), (), Finish.STOP, 0), parsed, message=message)
            conversation.turns.append(turn)
            reached = await conversation.advance()
            if isinstance(reached, Stop):
                return reached
        return Stop.MAX_TURNS

    async with pool.lease(servers, episode_id, allow=task.leased_tools) as toolbox:
        conversation = Conversation(task, toolbox, episode_id=episode_id)
        return await finish_episode(act(conversation), conversation, limits=EpisodeLimits())


async def judge(trial: Trial, pool: Pool, episode_id: str) -> Violation | None:
    """Play a script and compare its reward with what it must be."""
    if not asks_something(trial.task.truth):
        return Violation(trial, "the truth asks for nothing")
    message = ""
    for attempt in range(NUM_ATTEMPTS):
        try:
            trajectory = await play(trial, pool, f"{episode_id}/{attempt}")
        except (ConnectFailed, ValueError) as error:
            message = f"not played: {error}"
            continue
        if not trajectory.stop.is_infrastructure:
            return verdict(trial, trajectory)
        message = f"not played: the episode ended with {trajectory.stop}"
    return Violation(trial, message)


def verdict(trial: Trial, trajectory: Trajectory) -> Violation | None:
    if is_success(trajectory) is trial.must_succeed:
        return None
    if not trial.must_succeed:
        return Violation(trial, "earns 1")
    errors = [f"{call.name}: {result.content}" for call, result in trajectory.calls if result.is_error]
    why = errors[0] if errors else f"answers {trajectory.final_text!r}, truth {trial.task.truth}"
    return Violation(trial, f"earns 0: {why[:300]}")


async def audit(tasks: Sequence[Task], mcp: Path, num_parallel: int) -> tuple[Counter[str], list[Violation]]:
    """Play every script of every task; return the number of scripts by kind, and the violations in order."""
    trials = list(trials_of(tasks))
    slots = asyncio.Semaphore(num_parallel)
    found: dict[int, Violation] = {}

    async def judge_one(number: int, trial: Trial) -> None:
        async with slots:
            violation = await judge(trial, pool, f"audit/{number}")
        if violation is not None:
            found[number] = violation

    async with Pool(load_specs(mcp)) as pool:
        # Tasks without servers use all of them, and the names of tools depend on all of them.
        await pool.connect()
        async with asyncio.TaskGroup() as group:
            for number, trial in enumerate(trials):
                group.create_task(judge_one(number, trial))
    kinds = Counter(kind_of(trial) for trial in trials)
    return kinds, [found[number] for number in sorted(found)]


def kind_of(trial: Trial) -> str:
    """Return the kind of a script without its details."""
    known = ("reference plan", "nothing", "at once", "common answer", "left out", "changed", "foreign")
    return next(kind for kind in known if trial.kind.startswith(kind))


def tasks_in(folder: Path) -> list[Task]:
    """Return the tasks of all splits, with the file's name as their split."""
    files = {split: folder / f"{split}.jsonl" for split in SPLITS}
    present = {split: file for split, file in files.items() if file.exists()}
    if not present:
        raise ValueError(f"{folder}: holds none of {', '.join(file.name for file in files.values())}")
    return [replace(task, split=split) for split, file in present.items() for task in load_tasks(file)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="holds train.jsonl, validation.jsonl and test.jsonl")
    parser.add_argument("--mcp", type=Path, required=True, help="the servers that the tasks were made on")
    parser.add_argument("--num-tasks", type=int, default=0, help="audit a sample of this size; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-parallel", type=int, default=8, help="episodes played at the same time")
    options = parser.parse_args()
    try:
        tasks = tasks_in(options.folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if 0 < options.num_tasks < len(tasks):
        tasks = random.Random(options.seed).sample(tasks, options.num_tasks)
    kinds, violations = asyncio.run(audit(tasks, options.mcp, options.num_parallel))
    wrong = Counter(kind_of(violation.trial) for violation in violations)
    print(f"{len(tasks)} tasks, {sum(kinds.values())} episodes, {len(violations)} violations")
    for kind, count in kinds.items():
        must = "must earn 1" if kind == "reference plan" else "must earn 0"
        print(f"  {kind:15} {count:6} episodes, {must}: {wrong[kind]} violations")
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
