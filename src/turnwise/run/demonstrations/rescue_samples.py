"""Rescues: where the model's episode goes wrong, the task's plan goes on from there to the end.

The model plays tasks. Those it fails are played again on a fresh lease: its turns up to the takeover, token
for token and with real calls, then what is left of the plan. Only the plan's turns are learned.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnwise.engines.scripted import ScriptedEngine
from turnwise.rewards import reached_goal, succeeded
from turnwise.rollout.collector import CollectionFailed, Collector
from turnwise.rollout.players.policy import play
from turnwise.rollout.takeover import find_takeover
from turnwise.run.demonstrations.lessons import is_complete
from turnwise.setup.bench import Workbench
from turnwise.system.terminal import counted
from turnwise.training.packing.samples import Sample, samples_of
from turnwise.types import DemoTurn, Group, ModelUser, Reward, Sampling, Task, Trajectory, Turn, joined
from turnwise.types.protocols import Toolbox

logger = logging.getLogger(__name__)

NO_TROUBLE = "no_trouble"
"""The count of failed episodes that never go visibly wrong, so that the plan has no place to take over."""


@dataclass(frozen=True, slots=True)
class Rescues:
    """Samples of rescued episodes, and counts of what was played."""

    lessons: tuple[Sample, ...]
    num_played: int
    """Episodes that the model played to their end, one per task."""
    num_succeeded: int
    troubles: Mapping[str, int] = field(default_factory=dict)
    """Failed episodes by `Trouble`, or `NO_TROUBLE`."""
    discarded: Mapping[str, int] = field(default_factory=dict)
    """Rescues that do not count, by reason."""

    def __str__(self) -> str:
        failed = self.num_played - self.num_succeeded
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.troubles.items()))
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(self.discarded.items()))
        return (
            f"{counted(self.num_played, 'episode')} played, {failed} failed{f' ({kinds})' if kinds else ''}; "
            f"{len(self.lessons)} rescued, {sum(self.discarded.values())} discarded"
            f"{f' ({reasons})' if reasons else ''}"
        )


def can_rescue(task: Task) -> bool:
    """Whether the task has a whole plan that does not depend on what a model that plays the user says."""
    return bool(task.demonstration) and not isinstance(task.user, ModelUser) and is_complete(task)


async def play_all(collector: Collector, tasks: Sequence[Task]) -> list[tuple[Trajectory, Reward]]:
    """Play each task once and return the episodes in task order, without those lost to infrastructure."""
    played: dict[str, tuple[Trajectory, Reward]] = {}
    async with collector.collecting(tasks, len(tasks)) as groups:
        async for group in groups:
            played[group.task.id] = (group.trajectories[0], group.rewards[0])
    return [played[task.id] for task in tasks if task.id in played]


async def rescued(bench: Workbench, episodes: Sequence[tuple[Trajectory, Reward]]) -> Rescues:
    """Let the plan take over in the episodes that failed, and keep the rescues that reach the task's goal.

    If one does not, because the model has spoiled the state, the plan takes over before the change.
    """
    failed = {played.task.id: played for played, reward in episodes if not succeeded(played, reward)}
    kept, troubles, discarded = dict[str, tuple[Trajectory, Reward]](), dict[str, str](), dict[str, str]()
    for is_before_changes in (False, True):
        attempts = {}
        for task_id, played in failed.items():
            takeover = find_takeover(played, is_before_changes=is_before_changes)
            if takeover is not None and task_id not in kept:
                turns = played.turns[: takeover.num_kept]
                attempts[task_id] = _Attempt(played.task, turns, takeover.remaining)
                troubles[task_id] = takeover.trouble
                discarded[task_id] = "lost to infrastructure"
        for outcome in await _attempted(bench, attempts):
            task_id = outcome[0].task.id
            discarded[task_id] = attempts[task_id].objection(*outcome)
            if not discarded[task_id]:
                kept[task_id] = outcome
    return Rescues(
        _lessons([kept[task_id] for task_id in failed if task_id in kept]),
        len(episodes),
        len(episodes) - len(failed),
        Counter(troubles.get(task_id, NO_TROUBLE) for task_id in failed),
        Counter(filter(None, discarded.values())),
    )


async def whole_plans(bench: Workbench, tasks: Sequence[Task]) -> tuple[Sample, ...]:
    """Return the plans of these tasks from the beginning, executed now, without those that fail."""
    attempts = {task.id: _Attempt(task, (), task.demonstration) for task in tasks}
    outcomes = await _attempted(bench, attempts)
    return _lessons([one for one in outcomes if not attempts[one[0].task.id].objection(*one)])


def _lessons(outcomes: Sequence[tuple[Trajectory, Reward]]) -> tuple[Sample, ...]:
    groups = [
        Group(trajectory.task, (trajectory,), (Reward(1.0, {"outcome": 1.0}),)) for trajectory, _ in outcomes
    ]
    # A plan is not sampled, so the temperature of its episode does not apply.
    return tuple(replace(sample, temperature=1.0) for sample in samples_of(groups))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A task, the model's turns that are played again, and the turns of the plan that follow."""

    task: Task
    kept: tuple[Turn, ...]
    remaining: tuple[DemoTurn, ...]

    @property
    def roomy_task(self) -> Task:
        """The task with room for the rest of the plan."""
        return replace(self.task, max_turns=len(self.kept) + len(self.remaining))

    def objection(self, trajectory: Trajectory, reward: Reward) -> str:
        """Return why the outcome does not count; empty if it does."""
        num_kept = len(self.kept)
        if _context(trajectory.turns[:num_kept]) != _context(self.kept):
            return "results differ when played again"
        for turn, planned in zip(trajectory.turns[num_kept:], self.remaining, strict=False):
            expected = [result.is_error for result in planned.results] or [False] * len(planned.calls)
            if [result.is_error for result in turn.results] != expected:
                return "a call of the plan is refused"
        return "" if reached_goal(trajectory, reward) else f"{trajectory.stop}, without success"


def _context(turns: Sequence[Turn]) -> tuple[tuple[int, ...], list[str]]:
    """The ids of these turns, up to the end of the last one, and all results of their calls."""
    ids = joined(ids for turn in turns for ids in (turn.new_ids, turn.completion.token_ids))
    return ids, [result.content for turn in turns for result in turn.results]


async def _attempted(bench: Workbench, attempts: Mapping[str, _Attempt]) -> list[tuple[Trajectory, Reward]]:
    try:
        return await play_all(_rescuer(bench, attempts), [one.roomy_task for one in attempts.values()])
    except CollectionFailed as error:  # what was learned so far must not be lost with it
        logger.warning("no rescues: %s", error)
        return []


def _rescuer(bench: Workbench, attempts: Mapping[str, _Attempt]) -> Collector:
    """A collector that plays these attempts, by task id."""
    run, chat = bench.run.demonstrated(), bench.chat

    async def play_one(
        task: Task, toolbox: Toolbox, episode_id: str, seed: int, lost: Sequence[Trajectory]
    ) -> Trajectory:
        attempt = attempts[task.id]
        script = [chat.say(turn.text, turn.calls) for turn in attempt.remaining]
        return await play(
            task,
            ScriptedEngine(lambda text: chat.say(text)[:-1], min(chat.stop_ids), sequence=script),
            chat,
            toolbox,
            episode_id=episode_id,
            seed=seed,
            limits=run.limits(),
            sampling=Sampling(),
            given=[turn.completion.token_ids for turn in attempt.kept],
            rules=run.rules(),
            lost=lost,
        )

    return Collector(play_one, bench.lease, bench.rewards, run.collection(1), bench.slots.pace())
