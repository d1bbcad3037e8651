"""Figures of an evaluation from one record per episode, over all tasks and by family or difficulty."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from turnwise.rewards.outcome import is_decidable, successes_of
from turnwise.rollout.measure.statistics import (
    CONFIDENCE,
    Estimate,
    mean,
    mean_pass_at_k,
    mean_pass_hat_k,
    success_rate,
)
from turnwise.rollout.repetition import repeats_itself
from turnwise.types import Fault, Trajectory


@dataclass(frozen=True, slots=True)
class EvaluatedEpisode:
    """The record that an evaluation keeps of one episode."""

    task_id: str
    family: str
    difficulty: str
    is_success: bool
    num_turns: int
    num_tokens: int
    """Sampled by the model: without prompts and tool output."""
    num_calls: int
    num_failed_calls: int
    """Calls that failed because of the model."""
    num_format_errors: int
    num_prompt_tokens: int = 0
    """Read by the model: the whole prompt counts again in every turn, as providers bill it."""
    messages: tuple[bool, ...] = ()
    """Whether each user message of a conversation succeeded; empty for a task with one message."""
    is_repeating: bool = False
    """Whether it repeats itself: in training, `rollout.max_repeats` would have ended it."""
    is_redrawn: bool = False
    """Whether an attempt of it was lost to infrastructure whose turns could not be repeated."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a set of episodes."""

    num_tasks: int
    num_episodes: int
    success: Estimate
    pass_at_k: Mapping[int, float]
    pass_hat_k: Mapping[int, float]
    turns: Estimate
    tokens: Estimate
    tool_error_rate: float
    """Failed calls over calls; 0 if there were no calls."""
    format_error_rate: float
    """Turns with a format error over turns."""
    repeating_share: float
    """Episodes that repeat themselves over episodes."""


def record(trajectory: Trajectory, *, is_success: bool) -> EvaluatedEpisode:
    """The record of an episode, given its success."""
    return EvaluatedEpisode(
        task_id=trajectory.task.id,
        family=trajectory.task.family,
        difficulty=trajectory.task.difficulty.value,
        is_success=is_success,
        num_turns=len(trajectory.turns),
        num_tokens=sum(turn.num_sampled for turn in trajectory.turns),
        num_calls=len(trajectory.calls),
        num_failed_calls=sum(result.fault is Fault.MODEL for _, result in trajectory.calls),
        num_format_errors=sum(turn.parsed.error is not None for turn in trajectory.turns),
        num_prompt_tokens=_num_prompt_tokens(trajectory),
        messages=message_successes(trajectory),
        is_repeating=repeats_itself(trajectory),
        is_redrawn=trajectory.is_redrawn,
    )


def message_successes(trajectory: Trajectory) -> tuple[bool, ...]:
    """Whether each user message of a conversation succeeded; empty for other tasks and undecidable ones."""
    is_counted = trajectory.task.conversation and is_decidable(trajectory.task)
    return successes_of(trajectory) if is_counted else ()


def _num_prompt_tokens(trajectory: Trajectory) -> int:
    total = so_far = 0
    for turn in trajectory.turns:
        so_far += len(turn.new_ids)
        total += so_far if turn.usage is None else turn.usage[0]
        so_far += len(turn.completion.token_ids)
    return total


def summarise(
    episodes: Sequence[EvaluatedEpisode], *, ks: Iterable[int] = (1,), confidence: float = CONFIDENCE
) -> Summary:
    """All figures; a k larger than the number of samples of some task is left out."""
    if not episodes:
        raise ValueError("no episodes to summarise")
    outcomes = list(outcomes_by_task(episodes).values())
    num_turns = sum(episode.num_turns for episode in episodes)
    num_calls = sum(episode.num_calls for episode in episodes)
    num_failed_calls = sum(episode.num_failed_calls for episode in episodes)
    num_format_errors = sum(episode.num_format_errors for episode in episodes)
    possible = [k for k in ks if k <= min(map(len, outcomes))]
    return Summary(
        num_tasks=len(outcomes),
        num_episodes=len(episodes),
        success=success_rate(outcomes, confidence=confidence),
        pass_at_k={k: mean_pass_at_k(outcomes, k) for k in possible},
        pass_hat_k={k: mean_pass_hat_k(outcomes, k) for k in possible},
        turns=_mean_over_tasks(episodes, lambda episode: episode.num_turns, confidence),
        tokens=_mean_over_tasks(episodes, lambda episode: episode.num_tokens, confidence),
        tool_error_rate=num_failed_calls / num_calls if num_calls else 0.0,
        format_error_rate=num_format_errors / num_turns if num_turns else 0.0,
        repeating_share=fmean(episode.is_repeating for episode in episodes),
    )


def summarise_by(
    key: Callable[[EvaluatedEpisode], str],
    episodes: Sequence[EvaluatedEpisode],
    *,
    ks: Iterable[int] = (1,),
    confidence: float = CONFIDENCE,
) -> dict[str, Summary]:
    """A summary per value of the key (`by_family`, `by_difficulty` or another function), sorted by value."""
    wanted = tuple(ks)
    groups: defaultdict[str, list[EvaluatedEpisode]] = defaultdict(list)
    for episode in episodes:
        groups[key(episode)].append(episode)
    return {name: summarise(groups[name], ks=wanted, confidence=confidence) for name in sorted(groups)}


def by_message(
    episodes: Iterable[EvaluatedEpisode], *, confidence: float = CONFIDENCE
) -> dict[int, tuple[int, Estimate]]:
    """For each user message of conversations, from 1: the number of tasks that have it, and its success."""
    outcomes: defaultdict[int, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for episode in episodes:
        for number, is_success in enumerate(episode.messages, start=1):
            outcomes[number][episode.task_id].append(is_success)
    return {
        number: (len(tasks), success_rate(list(tasks.values()), confidence=confidence))
        for number, tasks in sorted(outcomes.items())
    }


def _mean_over_tasks(
    episodes: Iterable[EvaluatedEpisode], measure: Callable[[EvaluatedEpisode], float], confidence: float
) -> Estimate:
    """The mean over tasks: samples of one task are correlated and would make the interval too small."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        values[episode.task_id].append(measure(episode))
    return mean([fmean(samples) for samples in values.values()], confidence=confidence)


def by_family(episode: EvaluatedEpisode) -> str:
    return episode.family


def by_difficulty(episode: EvaluatedEpisode) -> str:
    return episode.difficulty


def outcomes_by_task(episodes: Iterable[EvaluatedEpisode]) -> dict[str, list[bool]]:
    """The outcomes of the samples of every task."""
    outcomes: defaultdict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        outcomes[episode.task_id].append(episode.is_success)
    return dict(outcomes)


def rates_by_task(episodes: Iterable[EvaluatedEpisode]) -> dict[str, float]:
    """The success rate of every task, for `paired_difference`."""
    return {task: fmean(outcomes) for task, outcomes in outcomes_by_task(episodes).items()}
