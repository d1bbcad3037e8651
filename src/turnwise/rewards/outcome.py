"""The `outcome` reward: 1 if everything the task's truth asks for was done, else 0.

An environment that scores `outcome` itself decides in place of the truth.
"""

from collections.abc import Callable, Mapping
from statistics import fmean

from turnwise.rewards.answer import says_answer
from turnwise.rewards.exchanges import exchanges_of, holds_throughout
from turnwise.rewards.state import makes_writes, passes_probes
from turnwise.rewards.tools import avoids_forbidden, makes_enough_calls, uses_required
from turnwise.types import Reward, Stop, Task, Trajectory, Truth

OUTCOME = "outcome"
"""The part of an environment's score that decides success: 1 is a success."""

ASKS_NOTHING = (
    "its truth asks for nothing that must be done, so doing nothing would succeed: "
    "add answer, writes, probes, required_tools, min_tool_calls or ends_with"
)


async def outcome(trajectory: Trajectory, *, partial: bool = False) -> float:
    """Return 1 if the answer, the changes, the probes, the tools and the calls are as the truth requires.

    In a conversation all messages must succeed; with `partial` the result is the share of those that do. With
    an environment that scores `outcome`: that score, which may be a part of 1.
    """
    if OUTCOME in trajectory.scores:
        return trajectory.scores[OUTCOME]
    if partial and is_decidable(trajectory.task):
        return fmean(successes_of(trajectory))
    return float(is_success(trajectory))


async def efficiency(trajectory: Trajectory) -> float:
    """Return the unused share of the turn limit: 1 for one step per message, 0 at the limit or for a failure.

    A failure must get 0: in a group where all fail, the episode that gave up first would be the best.
    """
    if not is_success(trajectory):
        return 0.0
    num_calls = sum(len(turn.parsed.calls) for turn in trajectory.turns)
    # Twelve calls in one turn save nothing: each counts as a turn.
    num_messages = len(trajectory.task.truths)
    num_steps = max(len(trajectory.turns), num_calls + num_messages)
    num_spare = trajectory.task.turn_limit - num_messages
    return max(0.0, 1 - (num_steps - num_messages) / num_spare) if num_spare > 0 else 0.0


def asks_something(truth: Truth) -> bool:
    """Return whether the truth alone can decide success; if not, the user's own rewards decide."""
    asked = truth.writes or truth.probes or truth.required_tools or truth.min_tool_calls or truth.ends_with
    return truth.answer is not None or bool(asked)


def is_decidable(task: Task) -> bool:
    """Return whether the truth of every message alone can decide success."""
    return all(map(asks_something, task.truths))


def succeeded(trajectory: Trajectory, reward: Reward) -> bool:
    """Return whether the model did the whole task: an episode that started inside the plan is no success."""
    return not trajectory.num_given and reached_goal(trajectory, reward)


def reached_goal(trajectory: Trajectory, reward: Reward) -> bool:
    """Return success by the environment or the task's truth; if neither decides, by a total of at least 1."""
    if trajectory.stop.is_forfeit:
        return False
    is_decided = OUTCOME in trajectory.scores or is_decidable(trajectory.task)
    return is_success(trajectory) if is_decided else reward.total >= 1.0


def is_success(trajectory: Trajectory) -> bool:
    """Return whether the episode was played to its end and all that the truths ask holds.

    If the environment scores `outcome`, return whether that is 1.
    """
    if trajectory.stop.is_forfeit:
        return False
    if OUTCOME in trajectory.scores:
        return trajectory.scores[OUTCOME] >= 1.0
    _check_decidable(trajectory.task)
    return holds_throughout(_has_done, trajectory)


def successes_of(trajectory: Trajectory) -> tuple[bool, ...]:
    """Return for every message of the task whether its exchange succeeded; one not sent has not."""
    _check_decidable(trajectory.task)
    done = tuple(_has_done(exchange) for exchange in exchanges_of(trajectory))
    return (*done, *(False,) * (len(trajectory.task.truths) - len(done)))


def _check_decidable(task: Task) -> None:
    if not is_decidable(task):
        raise ValueError(f"task {task.id!r}: {ASKS_NOTHING}")


def _has_done(exchange: Trajectory) -> bool:
    return all(holds(exchange) for holds in CHECKS.values())


def _has_ended(exchange: Trajectory) -> bool:
    # An exchange that was cut off did not say that it was done, and might have changed more.
    in_words = (Stop.ANSWERED, Stop.ENDED_BY_USER)
    endings = (Stop.ENDED_BY_CALL,) if exchange.task.truth.ends_with else in_words
    return exchange.stop in (*endings, Stop.ENDED)


def _uses_tools(exchange: Trajectory) -> bool:
    return uses_required(exchange) and makes_enough_calls(exchange)


CHECKS: Mapping[str, Callable[[Trajectory], bool]] = {
    "ending": _has_ended,
    "answer": says_answer,
    "tools": _uses_tools,
    "forbidden tools": avoids_forbidden,
    "writes": makes_writes,
    "probes": passes_probes,
}
"""What an exchange must fulfil to succeed, in the order in which it is checked. The first failure decides."""
