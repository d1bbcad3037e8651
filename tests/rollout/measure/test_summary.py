"""Figures of an evaluation from records and from trajectories."""

from dataclasses import replace

import pytest

from tests.rewards.episodes import QUOTE, did, episode, garbled, said
from turnwise.rollout.measure.statistics import mean, paired_difference, wilson
from turnwise.rollout.measure.summary import (
    EvaluatedEpisode,
    by_difficulty,
    by_family,
    by_message,
    rates_by_task,
    record,
    summarise,
    summarise_by,
)
from turnwise.types import Answer, Cause, FollowUp, Stop, Truth


def played(
    task: str, is_success: bool, *, family: str = "f", difficulty: str = "easy", turns: int = 2
) -> EvaluatedEpisode:
    return EvaluatedEpisode(task, family, difficulty, is_success, turns, 10 * turns, 4, 1, 1)


def test_an_episode_becomes_a_record() -> None:
    calls = (did(QUOTE, cause=Cause.TOOL_ERROR), did(QUOTE, cause=Cause.TIMEOUT), did(QUOTE))
    found = record(episode(Truth(), garbled(), *calls, said("x")), is_success=True)
    # Two tokens per turn and none in between: the prompts have 0, 2, 4, 6 and 8 tokens.
    assert found == EvaluatedEpisode("t1", "", "medium", True, 5, 10, 3, 1, 1, num_prompt_tokens=20)


def test_a_summary_counts_tasks_and_samples() -> None:
    episodes = [played("a", True), played("a", False, turns=4), played("b", True), played("b", True)]
    found = summarise(episodes, ks=(1, 2, 3))
    assert (found.num_tasks, found.num_episodes) == (2, 4)
    assert found.success.value == 0.75
    assert found.pass_at_k == {1: 0.75, 2: 1.0}
    assert found.pass_hat_k == {1: 0.75, 2: 0.5}
    assert found.turns == mean([3, 2])
    assert found.tokens == mean([30, 20])
    assert found.tool_error_rate == 0.25
    assert found.format_error_rate == 0.4


def test_a_summary_by_family_or_difficulty_contains_only_its_episodes() -> None:
    episodes = [
        played("a", True, family="quote"),
        played("b", False, family="quote", difficulty="hard"),
        played("c", False, family="post", difficulty="hard"),
    ]
    families = summarise_by(by_family, episodes)
    assert list(families) == ["post", "quote"]
    assert families["quote"].success == wilson(1, 2)
    assert families["post"].success == wilson(0, 1)
    assert summarise_by(by_difficulty, episodes)["hard"].success == wilson(0, 2)


def test_messages_of_conversations_are_counted_by_their_place() -> None:
    episodes = [
        replace(played("a", False), messages=(True, False)),
        replace(played("a", True), messages=(True, True)),
        replace(played("b", False), messages=(False, False, False)),
        played("plain", True),
    ]
    found = by_message(episodes)
    assert {number: (num, success.value) for number, (num, success) in found.items()} == {
        1: (2, pytest.approx(2 / 3)),
        2: (2, pytest.approx(1 / 3)),
        3: (1, 0.0),
    }
    assert by_message([played("plain", True)]) == {}


def test_the_record_of_a_conversation_says_which_messages_succeeded() -> None:
    trajectory = episode(Truth(answer=Answer("x")), said("x"), stop=Stop.MAX_TURNS)
    task = replace(trajectory.task, conversation=(FollowUp("And?", Truth(answer=Answer("y"))),))
    cut = replace(trajectory, task=task, endings=(Stop.ANSWERED,))
    assert record(cut, is_success=False).messages == (True, False)


def test_rates_by_task_are_the_values_that_a_comparison_pairs() -> None:
    before = rates_by_task([played("a", False), played("a", True), played("b", False)])
    after = rates_by_task([played("b", True), played("a", True)])
    assert before == {"a": 0.5, "b": 0.0}
    assert paired_difference(before, after).value == 0.75


def test_no_calls_and_no_turns_are_summarised_and_no_episodes_are_an_error() -> None:
    found = summarise([EvaluatedEpisode("a", "", "easy", False, 0, 0, 0, 0, 0)])
    assert (found.tool_error_rate, found.format_error_rate) == (0.0, 0.0)
    assert found.turns.low is None
    with pytest.raises(ValueError, match="no episodes"):
        summarise([])
    assert summarise_by(by_family, []) == {}
