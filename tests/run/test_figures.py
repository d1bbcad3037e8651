"""Figures of conversations: the success of each user message, and none where there are no conversations."""

from dataclasses import replace

from tests.rewards.test_conversations import HONEST, TASK, episode
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.measure.report import EvaluationReport
from turnwise.rollout.measure.summary import record
from turnwise.run.figures import evaluation_figures, rollout_figures
from turnwise.types import Group, Reward, Stop, Trajectory

LONE = replace(TASK, id="lone", conversation=())
TALKS = (episode(*HONEST), episode(*HONEST[:2], stop=Stop.MAX_TURNS))
"""All messages succeed; the first does, the second runs out of turns and the third is not sent."""


def by_message(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if name.startswith("success_by_message")}


def trained(*trajectories: Trajectory) -> dict[str, float]:
    rewards = tuple(Reward(1.0, {}) for _ in trajectories)
    return rollout_figures([Group(trajectories[0].task, trajectories, rewards)], Progress(), 1.0)


def evaluated(*trajectories: Trajectory) -> dict[str, float]:
    records = tuple(record(trajectory, is_success=True) for trajectory in trajectories)
    return evaluation_figures(EvaluationReport("m", 2, 1.0, 1.0, 1, 0, records))


def test_training_and_evaluations_have_the_success_of_each_message() -> None:
    lone = episode(HONEST[0], task=LONE)
    for figures in (trained, evaluated):
        assert by_message(figures(*TALKS, lone)) == {
            "success_by_message/1": 1.0,
            "success_by_message/2": 0.5,
            "success_by_message/3": 0.5,
        }
        assert by_message(figures(lone)) == {}
