"""Takes one record per episode, gives the figures of an evaluation, whole and by family or difficulty."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from turnwise.evaluate.statistics import (
    CONFIDENCE,
    Estimate,
    mean,
    mean_pass_at_k,
    mean_pass_hat_k,
    success_rate,
)
from turnwise.types import Fault, Trajectory


@dataclass(frozen=True, slots=True)
class Played:
    """What an evaluation keeps of one episode."""

    task_id: str
    family: str
    difficulty: str
    is_success: bool
    num_turns: int
    num_tokens: int
    """Sampled by the model; prompts and tool output are not its own."""
    num_calls: int
    num_failed_calls: int
    """Failed by the model's own doing."""
    num_format_errors: int
    num_prompt_tokens: int = 0
    """Read by the model, each turn's whole prompt counted again, as providers bill it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of some episodes."""

    num_tasks: int
    num_episodes: int
    success: Estimate
    pass_at_k: Mapping[int, float]
    pass_hat_k: Mapping[int, float]
    turns: Estimate
    tokens: Estimate
    tool_error_rate: float
    """Failed calls over calls; 0 where there were none."""
    format_error_rate: float
    """Turns with a format error over turns."""


def record(trajectory: Trajectory, *, is_success: bool) -> Played:
    """What to keep of an episode, once it is known whether it succeeded."""
    return Played(
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
    )


def _num_prompt_tokens(trajectory: Trajectory) -> int:
    total = so_far = 0
    for turn in trajectory.turns:
        so_far += len(turn.new_ids)
        total += so_far if turn.usage is None else turn.usage[0]
        so_far += len(turn.completion.token_ids)
    return total


def summarise(
    episodes: Sequence[Played], *, ks: Iterable[int] = (1,), confidence: float = CONFIDENCE
) -> Summary:
    """All figures; a k larger than some task's number of samples is left out."""
    if not episodes:
        raise ValueError("no episodes to summarise")
    outcomes = list(outcomes_by_task(episodes).values())
    num_turns, num_calls = sum(each.num_turns for each in episodes), sum(each.num_calls for each in episodes)
    possible = [k for k in ks if k <= min(map(len, outcomes))]
    return Summary(
        num_tasks=len(outcomes),
        num_episodes=len(episodes),
        success=success_rate(outcomes, confidence=confidence),
        pass_at_k={k: mean_pass_at_k(outcomes, k) for k in possible},
        pass_hat_k={k: mean_pass_hat_k(outcomes, k) for k in possible},
        turns=_mean_over_tasks(episodes, lambda each: each.num_turns, confidence),
        tokens=_mean_over_tasks(episodes, lambda each: each.num_tokens, confidence),
        tool_error_rate=sum(each.num_failed_calls for each in episodes) / num_calls if num_calls else 0.0,
        format_error_rate=sum(each.num_format_errors for each in episodes) / num_turns if num_turns else 0.0,
    )


def summarise_by(
    key: Callable[[Played], str],
    episodes: Sequence[Played],
    *,
    ks: Iterable[int] = (1,),
    confidence: float = CONFIDENCE,
) -> dict[str, Summary]:
    """A summary for each value of the key (`by_family`, `by_difficulty` or one's own), in their order."""
    wanted = tuple(ks)
    groups: defaultdict[str, list[Played]] = defaultdict(list)
    for each in episodes:
        groups[key(each)].append(each)
    return {name: summarise(groups[name], ks=wanted, confidence=confidence) for name in sorted(groups)}


def _mean_over_tasks(
    episodes: Iterable[Played], measure: Callable[[Played], float], confidence: float
) -> Estimate:
    """Each task counts once: its samples are alike, and would make the interval too small one by one."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in episodes:
        values[each.task_id].append(measure(each))
    return mean([fmean(samples) for samples in values.values()], confidence=confidence)


def by_family(episode: Played) -> str:
    return episode.family


def by_difficulty(episode: Played) -> str:
    return episode.difficulty


def outcomes_by_task(episodes: Iterable[Played]) -> dict[str, list[bool]]:
    """Each task's samples: whether each succeeded."""
    outcomes: defaultdict[str, list[bool]] = defaultdict(list)
    for each in episodes:
        outcomes[each.task_id].append(each.is_success)
    return dict(outcomes)


def rates_by_task(episodes: Iterable[Played]) -> dict[str, float]:
    """Each task's own success rate, for `paired_difference`."""
    return {task: fmean(outcomes) for task, outcomes in outcomes_by_task(episodes).items()}
