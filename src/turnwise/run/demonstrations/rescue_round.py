"""Rounds of rescues after the demonstrations of a warm start: the model plays, and the plan helps it out."""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from turnwise.config import Recipe
from turnwise.config.requirements import requirements
from turnwise.engines.vllm_helper import begin_early
from turnwise.rollout.collector import step_seed
from turnwise.rollout.live_panel import shown
from turnwise.run.demonstrations.lessons import Verified
from turnwise.run.demonstrations.rescue_samples import Rescues, can_rescue, play_all, rescued, whole_plans
from turnwise.run.demonstrations.warm_probes import publish, rest
from turnwise.setup.bench import Workbench, remote_engine
from turnwise.setup.requirements import require_playable
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.terminal import counted, open_console
from turnwise.tasks.selection import across_families
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import SftStep
from turnwise.types import Task

_FIRST_VERSION = 1_000_000
"""Probes before publish versions that count the steps of sft."""


@dataclass(frozen=True, slots=True)
class RescueRound:
    """One round: what was rescued, and what was learned from it."""

    rescues: Rescues
    num_plain: int
    """Whole demonstrations of rescued tasks that were learned with the rescues."""
    steps: Sequence[SftStep]
    """Empty if nothing was rescued."""

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        rescues = self.rescues
        return {
            "num_played": rescues.num_played,
            "num_succeeded": rescues.num_succeeded,
            "troubles": dict(rescues.troubles),
            "num_rescued": len(rescues.lessons),
            "discarded": dict(rescues.discarded),
            "num_plain": self.num_plain,
            "steps": [asdict(step) for step in self.steps],
        }


async def prepare_engine(recipe: Recipe) -> None:
    """Begin the engine's imports; raise ValueError if it is missing, before anything is learned."""
    begin_early(recipe)
    for requirement in requirements(recipe, is_on_skyrl=False):
        if requirement.module == "vllm" and requirement.version is None:
            raise ValueError(
                f"sft.rescue_rounds, sft.until_taught: {requirement.complaint}; or set them to 0 and false"
            )
    if recipe.engine.kind == "remote":
        async with contextlib.AsyncExitStack() as exits:
            await remote_engine(recipe.engine.remote.url, exits, is_lockstep=recipe.rollout.lockstep)


async def rescue(
    policy: Policy,
    bench: Workbench,
    learned: Sequence[Task],
    gathered: Verified,
    learn: Callable[[Sequence[Sample]], Awaitable[list[SftStep]]],
    on_note: Callable[[str], None],
) -> list[RescueRound]:
    """Run the rounds of rescues; `learned`: the tasks whose demonstrations were gathered."""
    rounds = []
    for number, tasks in enumerate(_tasks_of_rounds(bench.run, learned, gathered.dropped)):
        rescues, plain = await _play_round(policy, bench, tasks, number)
        on_note(f"rescues: {rescues}; {counted(len(plain), 'plain demonstration')} learned with them")
        both = [*rescues.lessons, *plain]
        samples = [replace(sample, group=group) for group, sample in enumerate(both)]
        steps = await learn(samples) if samples else []
        rounds.append(RescueRound(rescues, len(plain), steps))
    return rounds


def _tasks_of_rounds(
    run: ResolvedRun, learned: Sequence[Task], dropped: Collection[str]
) -> Iterator[tuple[Task, ...]]:
    """Yield the tasks of each round: those that were not learned or played yet, then learned ones.

    `dropped`: ids of tasks whose demonstrations were found to fail.
    """
    ids = {task.id for task in learned}
    sft = run.recipe.sft
    tasks = [task for task in run.tasks_of("train") if can_rescue(task) and task.id not in dropped]
    fresh = [task for task in tasks if task.id not in ids]
    known = [task for task in tasks if task.id in ids]
    for _ in range(sft.rescue_rounds):
        chosen = across_families(fresh, sft.rescue_tasks)
        played = {task.id for task in chosen}
        fresh = [task for task in fresh if task.id not in played]
        yield (*chosen, *across_families(known, sft.rescue_tasks - len(chosen)))


async def _play_round(
    policy: Policy, bench: Workbench, tasks: Sequence[Task], number: int
) -> tuple[Rescues, tuple[Sample, ...]]:
    """Play the tasks with the policy as it is, and rescue the episodes that fail.

    Return also the whole plans of rescued tasks. With rescues alone, every sample begins with a mistake, and
    the model would learn to make it first. A rescue from the first turn on is such a plan already.
    """
    if not tasks:
        return Rescues((), 0, 0), ()
    require_playable(bench, tasks)
    await publish(bench, policy, _FIRST_VERSION + number)
    # The streams of training steps are counted from 0.
    seed = step_seed(bench.recipe.seed, -1 - number)
    collector = bench.collector(group_size=1, seed=seed)
    async with shown(collector.progress, len(tasks), open_console(stderr=True)):
        episodes = await play_all(collector, tasks)
    rescues = await rescued(bench, episodes)
    late = {lesson.task_id for lesson in rescues.lessons if 0 not in lesson.turns}
    plain = await whole_plans(bench, [task for task in tasks if task.id in late])
    await rest(bench)
    return rescues, plain
