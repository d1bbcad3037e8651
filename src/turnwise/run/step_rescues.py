"""Rescues during a run: the plan takes over in groups of a step whose members all failed."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.rewards import reached_goal
from turnwise.rollout.rank_exchange import gather_from_ranks
from turnwise.run.demonstrations.rescue_samples import can_rescue, rescued
from turnwise.setup.bench import Workbench
from turnwise.system.ranks import Ranks, is_first
from turnwise.training.packing.samples import Sample
from turnwise.types import Group


@dataclass(frozen=True, slots=True)
class StepRescues:
    """What a step learns from rescues, and the figures of it."""

    lessons: tuple[Sample, ...]
    figures: dict[str, float]


async def rescues_of(bench: Workbench, played: Sequence[Group], most: int, ranks: Ranks) -> StepRescues:
    """Rescue the first member of at most `most` groups, of which no member reached the task's goal.

    Such a group teaches RL nothing: all its rewards are equal.
    """
    hopeless = {group.task.id: group for group in played if can_rescue(group.task) and _all_failed(group)}
    chosen = list(hopeless.values())[:most]
    # by the first rank alone: a server fault on another rank would give it other lessons
    rescues, *_ = await gather_from_ranks(ranks, _rescued(bench, chosen, ranks), "steps")
    return rescues


async def _rescued(bench: Workbench, groups: Sequence[Group], ranks: Ranks) -> StepRescues:
    if not groups or not is_first(ranks):
        return StepRescues((), {"rescues/attempted": 0.0, "rescues/kept": 0.0})
    verified = await rescued(bench, [(group.trajectories[0], group.rewards[0]) for group in groups])
    figures = {"rescues/attempted": float(len(groups)), "rescues/kept": float(len(verified.lessons))}
    return StepRescues(verified.lessons, figures)


def _all_failed(group: Group) -> bool:
    members = zip(group.trajectories, group.rewards, strict=True)
    return not group.num_given and not any(reached_goal(*member) for member in members)
