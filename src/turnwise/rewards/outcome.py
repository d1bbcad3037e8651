"""The `outcome` reward: 1 if everything the task's truth asks for was done, else 0.

An environment that scores `outcome` itself decides in place of the truth.
"""

from turnwise.rewards.answer import says_answer
from turnwise.rewards.state import makes_writes, passes_probes
from turnwise.rewards.tools import avoids_forbidden, makes_enough_calls, uses_required
from turnwise.types import Reward, Trajectory, Truth

OUTCOME = "outcome"
"""The part of an environment's score that decides success: 1 is a success."""

ASKS_NOTHING = (
    "its truth asks for nothing that must be done, so doing nothing would succeed: "
    "add answer, writes, probes, required_tools or min_tool_calls"
)


async def outcome(trajectory: Trajectory) -> float:
    """Return 1 if the answer, the changes, the probes, the tools and the calls are as the truth requires.

    With an environment that scores `outcome`: that score, which may be a part of 1.
    """
    return float(trajectory.scores[OUTCOME] if OUTCOME in trajectory.scores else is_success(trajectory))


async def efficiency(trajectory: Trajectory) -> float:
    """Return the unused share of the turn limit: 1 for a single step, 0 at the limit or for a failure.

    A failure must get 0: in a group where all fail, the episode that gave up first would be the best.
    """
    if not is_success(trajectory):
        return 0.0
    num_calls = sum(len(turn.parsed.calls) for turn in trajectory.turns)
    # Twelve calls in one turn save nothing: each counts as a turn.
    num_steps = max(len(trajectory.turns), num_calls + 1)
    num_spare = trajectory.task.turn_limit - 1
    return max(0.0, 1 - (num_steps - 1) / num_spare) if num_spare else 0.0


def asks_something(truth: Truth) -> bool:
    """Return whether the truth alone can decide success; if not, the user's own rewards decide."""
    asked = truth.writes or truth.probes or truth.required_tools or truth.min_tool_calls
    return truth.answer is not None or bool(asked)


def succeeded(trajectory: Trajectory, reward: Reward) -> bool:
    """Return success by the environment or the task's truth; if neither decides, by a total of at least 1."""
    is_decided = OUTCOME in trajectory.scores or asks_something(trajectory.task.truth)
    return is_success(trajectory) if is_decided else reward.total >= 1.0


def is_success(trajectory: Trajectory) -> bool:
    """Return whether the episode was played to its end and all that the truth asks holds.

    If the environment scores `outcome`, return whether that is 1.
    """
    if OUTCOME in trajectory.scores:
        return trajectory.scores[OUTCOME] >= 1.0
    if not asks_something(trajectory.task.truth):
        raise ValueError(f"task {trajectory.task.id!r}: {ASKS_NOTHING}")
    # An episode that was cut off did not say that it was done, and might have changed more.
    return (
        trajectory.stop.is_complete
        and says_answer(trajectory)
        and uses_required(trajectory)
        and makes_enough_calls(trajectory)
        and avoids_forbidden(trajectory)
        and makes_writes(trajectory)
        and passes_probes(trajectory)
    )
