"""Groups as rows of SkyRL: prompt, response, mask, log-probs and reward."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.types import Group, Reward, Stop, Trajectory

_STOP_REASONS = {
    Stop.ANSWERED: "stop",
    Stop.ENDED: "stop",
    Stop.ENDED_BY_CALL: "stop",
    Stop.ENDED_BY_USER: "stop",
    Stop.MAX_TURNS: "stop",
    Stop.REPEATED: "stop",
    Stop.TRUNCATED: "length",
    Stop.CONTEXT_FULL: "length",
    Stop.SLOW_CALLS: "stop",
    Stop.BROKE_SERVER: "stop",
}
LOST = "lost"
"""The stop reason of an episode lost to infrastructure; its row is not trained."""


@dataclass(frozen=True, slots=True)
class Row:
    """One episode in SkyRL's format; the response begins with the first completion.

    token_ids  [prompt..][completion 0][tool output][completion 1]
               prompt_ids response_ids...........................
    loss_mask             1..........1  0.........0  1..........1
    """

    prompt_ids: list[int]
    response_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    reward: float
    stop_reason: str
    seconds: float
    engine_seconds: float


def rows_of(group: Group, blank_id: int) -> list[Row]:
    """One row per member, in order."""
    pairs = zip(group.trajectories, group.rewards, strict=True)
    return [_row(trajectory, reward, blank_id) for trajectory, reward in pairs]


def _row(trajectory: Trajectory, reward: Reward, blank_id: int) -> Row:
    stop_reason = _STOP_REASONS[trajectory.stop]
    if not trajectory.turns:  # the prompt filled the context
        return blank_row(blank_id, reward.total, stop_reason, trajectory.seconds)
    start = len(trajectory.turns[0].new_ids)
    return Row(
        prompt_ids=list(trajectory.token_ids[:start]),
        response_ids=list(trajectory.token_ids[start:]),
        loss_mask=list(trajectory.loss_mask[start:]),
        logprobs=list(trajectory.logprobs[start:]),
        reward=reward.total,
        stop_reason=stop_reason,
        seconds=trajectory.seconds,
        engine_seconds=sum(turn.engine_seconds for turn in trajectory.turns),
    )


def blank_row(blank_id: int, reward: float, stop_reason: str = LOST, seconds: float = 0.0) -> Row:
    """A row with one masked token, which trains nothing: SkyRL accepts no empty rows."""
    return Row([blank_id], [blank_id], [0], [0.0], reward, stop_reason, seconds, 0.0)


def mean_reward(rows: Sequence[Row]) -> float | None:
    """The mean reward of the episodes that were not lost; None if all were lost."""
    played = [row.reward for row in rows if row.stop_reason != LOST]
    return sum(played) / len(played) if played else None
