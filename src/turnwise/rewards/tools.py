"""Rewards for tool use: required and forbidden tools, milestones, format and errors."""

from turnwise.rewards.exchanges import exchanges_of, holds_throughout
from turnwise.types import Fault, Trajectory


async def required_tools(trajectory: Trajectory) -> float:
    """Return 1 if every required tool succeeded once and at least `min_tool_calls` calls succeeded."""
    return float(
        holds_throughout(uses_required, trajectory) and holds_throughout(makes_enough_calls, trajectory)
    )


async def forbidden_tools(trajectory: Trajectory) -> float:
    """Return 1 if no forbidden tool was called, not even unsuccessfully."""
    return float(holds_throughout(avoids_forbidden, trajectory))


async def milestones(trajectory: Trajectory) -> float:
    """Return the share of the truth's milestones that were reached; repeated calls count once."""
    wanted = [set(truth.milestones) for truth in trajectory.task.truths]
    # Messages that were never sent have no exchange, and none of their milestones was reached.
    pairs = zip(wanted, exchanges_of(trajectory), strict=False)
    num_reached = sum(len(tools & succeeded(exchange)) for tools, exchange in pairs)
    num_wanted = sum(map(len, wanted))
    return num_reached / num_wanted if num_wanted else 0.0


async def format_share(trajectory: Trajectory) -> float:
    """Return the share of turns that were a well-formed call or answer."""
    num_turns = len(trajectory.turns)
    return sum(turn.parsed.error is None for turn in trajectory.turns) / num_turns if num_turns else 0.0


async def error_rate(trajectory: Trajectory) -> float:
    """Return the share of calls that failed by the model's own fault; give it a negative weight."""
    calls = trajectory.calls
    return sum(result.fault is Fault.MODEL for _, result in calls) / len(calls) if calls else 0.0


def uses_required(trajectory: Trajectory) -> bool:
    return set(trajectory.task.truth.required_tools) <= succeeded(trajectory)


def makes_enough_calls(trajectory: Trajectory) -> bool:
    num_successful = sum(not result.is_error for _, result in trajectory.calls)
    return num_successful >= trajectory.task.truth.min_tool_calls


def avoids_forbidden(trajectory: Trajectory) -> bool:
    asked_for = {call.name for turn in trajectory.turns for call in turn.parsed.calls}
    return asked_for.isdisjoint(trajectory.task.truth.forbidden_tools)


def succeeded(trajectory: Trajectory) -> set[str]:
    """Return the tools with at least one successful call."""
    return {call.name for call, result in trajectory.calls if not result.is_error}
