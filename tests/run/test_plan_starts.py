"""A run whose tasks all fail starts them inside their plans, counts that apart, and resumes exactly."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

from tests.rollout.test_plan_starts import started, three_turns
from tests.run.test_resume import COMMON, check_identical, episodes, play_unbroken_and_broken
from tests.shown import recipe_in, sound_setup
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.store import read_episodes
from turnwise.run.figures import rollout_figures
from turnwise.types import Answer, DemoTurn, Reward, Task


def demonstrated(count: int) -> list[Task]:
    """Tasks that the random model never does: it never says this answer."""
    truth = replace(three_turns().truth, answer=Answer("written"))
    shown = (*three_turns().demonstration[:2], DemoTurn("written"))
    return [
        replace(three_turns(), id=f"train{number}", truth=truth, demonstration=shown)
        for number in range(count)
    ]


async def test_success_is_counted_from_the_beginning_only(tmp_path: Path) -> None:
    recipe = recipe_in(sound_setup(tmp_path), "rollout.tokens_per_turn=1000")
    whole, _ = await started(recipe, three_turns(), 0)
    inside, _ = await started(recipe, three_turns(), 2)
    failed = replace(whole, rewards=tuple(Reward(0.0, {"outcome": 0.0}) for _ in whole.rewards))
    cut = replace(whole, trajectories=tuple(replace(one, turns=one.turns[:1]) for one in whole.trajectories))
    figures = rollout_figures([cut, inside], Progress(), 1.0)
    assert figures["success/rate"] == 0.0
    assert rollout_figures([failed, inside], Progress(), 1.0)["reward/mean"] == 0.0
    assert figures["plan_starts/episodes_fraction"] == 0.5
    assert figures["plan_starts/reached_goal_rate"] == 1.0
    assert figures["plan_starts/given_fraction"] == 2 / 3
    alone = rollout_figures([inside], Progress(), 1.0)
    assert not [name for name in alone if name.startswith(("success", "reward"))]
    assert rollout_figures([whole], Progress(), 1.0)["plan_starts/episodes_fraction"] == 0.0


def test_a_run_that_is_killed_resumes_with_the_same_starts_bit_for_bit(tmp_path: Path) -> None:
    settings = {**COMMON, "curriculum": {"plan_starts": True}}
    settings["run"] = {**COMMON["run"], "num_steps": 3}
    unbroken, broken = play_unbroken_and_broken(tmp_path, settings, demonstrated(4), ("update:4",))
    last = check_identical(unbroken, broken, 3)
    assert max(last.facts["standing"]["plan_starts"]["tasks"].values()) > 0
    given = set()
    for step in range(3):
        of_step = list(read_episodes(broken.trajectories(step)))
        of_step.sort(key=lambda played: played.trajectory.task.id)
        for _, members in itertools.groupby(of_step, lambda played: played.trajectory.task.id):
            starts = {played.trajectory.num_given for played in members}
            assert len(starts) == 1, "members of a group start at the same place"
            given |= starts
    assert len(given) > 1, "no group started inside its plan"
    lines = [json.loads(line) for line in broken.metrics.read_text().splitlines()]
    fractions = [line["metrics"].get("plan_starts/episodes_fraction") for line in lines]
    assert any(fraction for fraction in fractions)
    assert episodes(unbroken.trajectories(2)) == episodes(broken.trajectories(2))
