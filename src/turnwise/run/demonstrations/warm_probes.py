"""Probe episodes of a warm start: a few training tasks, played by the model as it is."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from turnwise.rewards import succeeded
from turnwise.rollout.collector import step_seed
from turnwise.run.demonstrations.rescue_samples import can_rescue
from turnwise.run.health.readiness import Probe
from turnwise.setup.bench import Workbench
from turnwise.tasks.selection import across_families
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import SftStep
from turnwise.types import Group, Task
from turnwise.types.protocols import SleepingEngine

NUM_TASKS, NUM_TRIES = 12, 8
"""96 episodes: the share of successes is measured within about .1, as tries of one task are alike."""
_FIRST_SEED = -1_000_000
"""Training steps have seeds from 0 upwards, rounds of rescues below."""


class WarmProbes:
    """Plays the same tasks at every probe; those whose demonstrations are not learned come first."""

    def __init__(
        self, bench: Workbench, policy: Policy, tasks: Sequence[Task], learned: Sequence[Task]
    ) -> None:
        ids = {task.id for task in learned}
        playable = [task for task in tasks if can_rescue(task)]
        fresh = across_families([task for task in playable if task.id not in ids], NUM_TASKS)
        known = [task for task in playable if task.id in ids]
        self._tasks = (*fresh, *across_families(known, NUM_TASKS - len(fresh)))
        self._bench = bench
        self._policy = policy

    async def play(self, steps: Sequence[SftStep]) -> Probe | None:
        """Publish the weights after these steps and play; None if there is no task to play."""
        if not self._tasks:
            return None
        number = len(steps)
        await publish(self._bench, self._policy, number)
        collector = self._bench.collector(
            group_size=NUM_TRIES, seed=step_seed(self._bench.recipe.seed, _FIRST_SEED)
        )
        async with collector.collecting(self._tasks, len(self._tasks)) as groups:
            played = [group async for group in groups]
        await rest(self._bench)
        return probe_of(played, number, sum(step.num_samples for step in steps))


async def publish(bench: Workbench, policy: Policy, version: int) -> None:
    """Publish the policy's weights to the bench's engine."""
    weights = policy.adapter() if bench.recipe.publishes_adapters else policy.weights()
    await bench.engine.publish(weights, version)


async def rest(bench: Workbench) -> None:
    """Let the engine release its memory until the next publication, if the recipe says so."""
    if isinstance(bench.engine, SleepingEngine):
        await bench.engine.sleep()


def probe_of(groups: Sequence[Group], num_steps: int, num_demonstrations: int) -> Probe:
    """The figures of a probe."""
    episodes = list(chain.from_iterable(group.trajectories for group in groups))
    turns = [turn for episode in episodes for turn in episode.turns]
    logprobs = [logprob for turn in turns for logprob in turn.completion.logprobs]
    tries = [
        [succeeded(*pair) for pair in zip(group.trajectories, group.rewards, strict=True)] for group in groups
    ]
    return Probe(
        num_steps=num_steps,
        num_demonstrations=num_demonstrations,
        well_formed=fmean(all(turn.parsed.error is None for turn in one.turns) for one in episodes),
        success=fmean(chain.from_iterable(tries)),
        solvable=fmean(map(any, tries)),
        entropy=-fmean(logprobs),
    )
