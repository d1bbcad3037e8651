"""Figures of what was played and of evaluations, by name."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from turnwise.mcp.calls.gate import Breaker
from turnwise.rewards import reached_goal, succeeded
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.measure.losses import loss_figures
from turnwise.rollout.measure.report import EvaluationReport
from turnwise.rollout.measure.summary import by_family, by_message, message_successes, summarise, summarise_by
from turnwise.rollout.repetition import repeats_itself
from turnwise.run.health.gpu import POWER, UTILIZATION
from turnwise.training.algorithms.advantages import has_signal
from turnwise.types import Fault, Group, Reward, Stop, Trajectory

_BY_MESSAGE = "success_by_message"
"""A separate name: `success/` is followed by the name of a family."""


def rollout_figures(groups: Sequence[Group], progress: Progress, seconds: float) -> dict[str, float]:
    """Figures over all episodes of a collection, including groups without a learning signal."""
    played = [pair for group in groups for pair in zip(group.trajectories, group.rewards, strict=True)]
    figures = {
        "episodes/finished": float(progress.num_finished),
        "episodes/lost": float(progress.num_lost),
        "groups/finished": float(progress.num_groups),
        "groups/dropped": float(progress.num_groups_dropped),
        "groups/unneeded": float(progress.num_groups_unneeded),
        "time/rollout_seconds": seconds,
        **{f"episodes/lost_{stop}": float(num) for stop, num in sorted(progress.failures.items())},
        **loss_figures(progress.attempts),
    }
    if not played:
        return figures
    trajectories = [trajectory for trajectory, _ in played]
    # What started inside the plan says nothing about the success of the task.
    whole = [(trajectory, reward) for trajectory, reward in played if not trajectory.num_given]
    flat = [not has_signal([reward.total for reward in group.rewards]) for group in groups]
    return {
        **figures,
        **(_rewards(whole) if whole else {}),
        **_success_by_message([trajectory for trajectory, _ in whole]),
        **_inside_plans([pair for pair in played if pair[0].num_given], len(played)),
        "groups/zero_variance_fraction": fmean(flat),
        **_behaviour(trajectories),
        **_lengths(trajectories),
        "rollout/tokens_per_second": progress.num_tokens / max(seconds, 1e-9),
    }


def drawing_figures(groups: Sequence[Group], predicted: Sequence[float]) -> dict[str, float]:
    """What was drawn and at which temperatures, and the share of groups with a learning signal."""
    if not groups:
        return {}
    signal = [has_signal([reward.total for reward in group.rewards]) for group in groups]
    temperatures = [group.trajectories[0].temperature for group in groups]
    by_family: defaultdict[str, list[tuple[bool, float]]] = defaultdict(list)
    for group, is_different, temperature in zip(groups, signal, temperatures, strict=True):
        if group.task.family:
            by_family[group.task.family].append((is_different, temperature))
    expected = {"groups/predicted_signal_fraction": fmean(predicted)} if predicted else {}
    return {
        "groups/signal_fraction": fmean(signal),
        **expected,
        "rollout/temperature": fmean(temperatures),
        **{f"drawn/{family}": float(len(own)) for family, own in sorted(by_family.items())},
        **{f"signal/{family}": fmean(flag for flag, _ in own) for family, own in sorted(by_family.items())},
        **{f"temperature/{family}": own[0][1] for family, own in sorted(by_family.items())},
    }


def breaker_figures(breakers: Mapping[str, Breaker], num_before: Mapping[str, int]) -> dict[str, float]:
    """For each server: whether its breaker is open, and how often it opened since `num_before`."""
    figures = {}
    for server, breaker in breakers.items():
        figures[f"breaker/open/{server}"] = float(breaker.is_open)
        figures[f"breaker/openings/{server}"] = float(breaker.num_openings - num_before.get(server, 0))
    return figures


def of_all_ranks(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combine the ranks' figures on breakers, memory and GPUs: sum, mean or maximum, by name."""
    names = dict.fromkeys(name for of_rank in figures for name in of_rank)
    return {name: _combine(name, [of_rank[name] for of_rank in figures if name in of_rank]) for name in names}


def _combine(name: str, values: Sequence[float]) -> float:
    if name.startswith("breaker/openings/"):
        return sum(values)
    return fmean(values) if name in (UTILIZATION, POWER) else max(values)


def _rewards(played: Sequence[tuple[Trajectory, Reward]]) -> dict[str, float]:
    totals = [reward.total for _, reward in played]
    outcomes = [succeeded(trajectory, reward) for trajectory, reward in played]
    figures = {"reward/mean": fmean(totals), "reward/std": pstdev(totals), "success/rate": fmean(outcomes)}
    for name in dict.fromkeys(name for _, reward in played for name in reward.parts):
        figures[f"reward/{name}"] = fmean(reward.parts[name] for _, reward in played if name in reward.parts)
    for family in sorted({trajectory.task.family for trajectory, _ in played} - {""}):
        own = [
            outcome
            for (trajectory, _), outcome in zip(played, outcomes, strict=True)
            if trajectory.task.family == family
        ]
        figures[f"success/{family}"] = fmean(own)
    return figures


def _inside_plans(inside: Sequence[tuple[Trajectory, Reward]], num_played: int) -> dict[str, float]:
    """Figures on the episodes that started inside the task's plan."""
    figures = {"plan_starts/episodes_fraction": len(inside) / num_played}
    if not inside:
        return figures
    given = [trajectory.num_given / len(trajectory.task.demonstration) for trajectory, _ in inside]
    reached = [reached_goal(trajectory, reward) for trajectory, reward in inside]
    return {
        **figures,
        "plan_starts/given_fraction": fmean(given),
        "plan_starts/reached_goal_rate": fmean(reached),
    }


def _success_by_message(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """The success of the first, second, … message over all conversations that have one; empty without any."""
    outcomes: defaultdict[int, list[bool]] = defaultdict(list)
    for trajectory in trajectories:
        for number, is_success in enumerate(message_successes(trajectory), start=1):
            outcomes[number].append(is_success)
    return {f"{_BY_MESSAGE}/{number}": fmean(own) for number, own in sorted(outcomes.items())}


def _behaviour(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns if not turn.is_given]
    calls = [result for turn in turns for result in turn.results]
    is_cut = [trajectory.stop in (Stop.TRUNCATED, Stop.CONTEXT_FULL) for trajectory in trajectories]
    return {
        "tools/calls": len(calls) / len(trajectories),
        "tools/error_rate": _share([result.fault is Fault.MODEL for result in calls]),
        "tools/repaired_rate": _share([bool(result.repairs) for result in calls]),
        "tools/mended_turns": float(sum(turn.parsed.is_mended for turn in turns)),
        "tools/seconds": _mean([result.seconds for result in calls]),
        "format/error_rate": _share([turn.parsed.error is not None for turn in turns]),
        "truncation/rate": _share(is_cut),
        "episodes/repeating_share": _share([repeats_itself(trajectory) for trajectory in trajectories]),
        "episodes/answered": _share([trajectory.stop.is_finished for trajectory in trajectories]),
        "episodes/out_of_turns": _share([trajectory.stop is Stop.MAX_TURNS for trajectory in trajectories]),
    }


def _lengths(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    own = [sum(turn.num_sampled for turn in trajectory.turns) for trajectory in trajectories]
    prompts = [sum(len(turn.new_ids) for turn in trajectory.turns) for trajectory in trajectories]
    return {
        "length/own_tokens": fmean(own),
        "length/own_tokens_max": float(max(own)),
        "length/read_tokens": fmean(prompts),
        "length/turns": fmean(len(trajectory.turns) for trajectory in trajectories),
    }


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def evaluation_figures(report: EvaluationReport) -> dict[str, float]:
    """Success with its interval, over all tasks and by family; turns, tokens and error rates."""
    overall = summarise(report.episodes)
    figures = {
        "success": overall.success.value,
        "success_at_least": report.success_at_least,
        "turns": overall.turns.value,
        "tokens": overall.tokens.value,
        "tool_error_rate": overall.tool_error_rate,
        "format_error_rate": overall.format_error_rate,
        "repeating_share": overall.repeating_share,
    }
    if overall.success.low is not None and overall.success.high is not None:
        figures |= {"success_low": overall.success.low, "success_high": overall.success.high}
    families = summarise_by(by_family, report.episodes)
    return {
        **figures,
        **{f"success/{family}": summary.success.value for family, summary in families.items() if family},
        **{
            f"{_BY_MESSAGE}/{number}": success.value
            for number, (_, success) in by_message(report.episodes).items()
        },
    }
