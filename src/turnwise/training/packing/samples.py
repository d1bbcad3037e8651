"""Samples: a trajectory's token ids, which of them the model chose, and what it earned."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.types import Group, Reward, Stop, Trajectory, joined

_CUT_OFF = (Stop.TRUNCATED, Stop.CONTEXT_FULL)


@dataclass(frozen=True, slots=True)
class Sample:
    """One trajectory as training data.

    tokens    [prompt..][completion 0][tool output][completion 1]
    loss_mask  0......0  1..........1  0.........0  1..........1
    turns     -1.....-1  0..........0 -1........-1  1..........1
    """

    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    """1 where the model chose the token."""
    logprobs: tuple[float, ...]
    """The sampler's; 0 where the mask is 0."""
    turns: tuple[int, ...]
    """The turn in which each token was sampled; -1 for a token that was not."""
    group: int
    """The number of its group in the batch."""
    task_id: str
    reward: float
    turn_rewards: tuple[float, ...]
    """One per turn, adding up to `reward`; `samples_of` puts all of it on the last turn."""
    is_truncated: bool
    """Cut off by a limit: the value head must estimate the rest of the return."""
    policy_version: int
    """The oldest version that any of its tokens was sampled with."""
    temperature: float = 1.0
    """The sampling temperature; every log-prob of its tokens is computed at it."""

    def __post_init__(self) -> None:
        lengths = {len(self.token_ids), len(self.loss_mask), len(self.logprobs), len(self.turns)}
        assert len(lengths) == 1, f"one entry a token, got lengths {sorted(lengths)}"

    @property
    def num_own_tokens(self) -> int:
        return sum(self.loss_mask)


def samples_of(groups: Sequence[Group]) -> tuple[Sample, ...]:
    """Return a sample for every member of every group, in order; groups are numbered from 0."""
    return tuple(
        _sample(trajectory, reward, number)
        for number, group in enumerate(groups)
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
    )


def _sample(trajectory: Trajectory, reward: Reward, group: int) -> Sample:
    turns = joined(
        (number,) * len(ids)
        for index, turn in enumerate(trajectory.turns)
        for number, ids in ((-1, turn.new_ids), (index, turn.completion.token_ids))
    )
    num_earlier = max(len(trajectory.turns) - 1, 0)
    return Sample(
        token_ids=trajectory.token_ids,
        loss_mask=trajectory.loss_mask,
        logprobs=trajectory.logprobs,
        turns=turns,
        group=group,
        task_id=trajectory.task.id,
        reward=reward.total,
        turn_rewards=(*(0.0,) * num_earlier, reward.total),
        is_truncated=trajectory.stop in _CUT_OFF,
        policy_version=min(
            (turn.completion.policy_version for turn in trajectory.turns if not turn.is_given), default=0
        ),
        temperature=trajectory.temperature,
    )
