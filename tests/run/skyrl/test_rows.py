"""Rows of SkyRL are the tokens of trajectories, split at the first completion."""

import pytest

from turnwise.run.skyrl.rows import LOST, Row, blank_row, mean_reward, rows_of
from turnwise.types import (
    Completion,
    Finish,
    Group,
    Message,
    Parsed,
    Reward,
    Stop,
    Task,
    Trajectory,
    Truth,
    Turn,
)

TASK = Task("t", (Message("user", "go"),), (), Truth())


def turn(new_ids: tuple[int, ...], token_ids: tuple[int, ...], logprobs: tuple[float, ...]) -> Turn:
    completion = Completion(token_ids, logprobs, Finish.STOP, 0)
    return Turn(new_ids, completion, Parsed(), engine_seconds=0.25)


def group_of(stop: Stop, *turns: Turn) -> Group:
    return Group(TASK, (Trajectory(TASK, "e", 0, turns, stop, seconds=2.0),), (Reward(0.5, {}),))


def test_a_row_is_the_trajectory_token_for_token() -> None:
    played = group_of(Stop.ANSWERED, turn((1, 2), (3, 4), (-0.1, -0.2)), turn((5, 6, 7), (8,), (-0.3,)))
    [row] = rows_of(played, blank_id=9)
    assert row == Row(
        prompt_ids=[1, 2],
        response_ids=[3, 4, 5, 6, 7, 8],
        loss_mask=[1, 1, 0, 0, 0, 1],
        logprobs=[-0.1, -0.2, 0.0, 0.0, 0.0, -0.3],
        reward=0.5,
        stop_reason="stop",
        seconds=2.0,
        engine_seconds=0.5,
    )


@pytest.mark.parametrize("stop", [stop for stop in Stop if not stop.is_infrastructure])
def test_a_truncated_episode_has_stop_reason_length(stop: Stop) -> None:
    [row] = rows_of(group_of(stop, turn((1,), (2,), (-0.1,))), blank_id=9)
    assert row.stop_reason == ("length" if stop in (Stop.TRUNCATED, Stop.CONTEXT_FULL) else "stop")


def test_an_episode_without_turns_keeps_its_reward_and_trains_nothing() -> None:
    [row] = rows_of(group_of(Stop.CONTEXT_FULL), blank_id=9)
    assert (row.prompt_ids, row.response_ids, row.loss_mask, row.logprobs) == ([9], [9], [0], [0.0])
    assert (row.reward, row.stop_reason) == (0.5, "length")


def test_the_mean_reward_excludes_lost_episodes() -> None:
    played = rows_of(group_of(Stop.ANSWERED, turn((1,), (2,), (-0.1,))), blank_id=9)
    assert mean_reward([*played, blank_row(9, 0.0)]) == 0.5
    assert mean_reward([blank_row(9, 0.0)]) is None
    assert blank_row(9, 0.0).stop_reason == LOST
