"""Episodes as trackers show them: texts of bounded length."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from turnwise.records.trackers.messages import CallRecord, EpisodeRecord, Said
from turnwise.types import Fault, Group, Reward, ToolCall, Trajectory, Turn

MAX_CHARS = 8_000
"""The most characters of one message: a tool or a model may write megabytes."""


Scored = tuple[Trajectory, Reward]
IsSuccess = Callable[[Trajectory, Reward], bool]


def first_of(groups: Iterable[Group], most: int) -> tuple[Scored, ...]:
    """The first `most` episodes, group by group, so that those of one task are next to each other."""
    pairs = (pair for group in groups for pair in zip(group.trajectories, group.rewards, strict=True))
    return tuple(itertools.islice(pairs, most))


def episodes_of(scored: Sequence[Scored], is_success: IsSuccess) -> tuple[EpisodeRecord, ...]:
    return tuple(
        _episode(trajectory, reward, is_success(trajectory, reward)) for trajectory, reward in scored
    )


def _episode(trajectory: Trajectory, reward: Reward, is_success: bool) -> EpisodeRecord:
    return EpisodeRecord(
        id=tidy(trajectory.episode_id),
        task_id=tidy(trajectory.task.id),
        family=tidy(trajectory.task.family),
        difficulty=trajectory.task.difficulty.value,
        reward=reward.total,
        parts=dict(reward.parts),
        is_success=is_success,
        stop=trajectory.stop.value,
        num_turns=len(trajectory.turns),
        num_calls=len(trajectory.calls),
        num_failed_calls=sum(result.fault is Fault.MODEL for _, result in trajectory.calls),
        num_tokens=sum(turn.num_sampled for turn in trajectory.turns),
        seconds=trajectory.seconds,
        answer=tidy(trajectory.final_text),
        said=tuple(_said(trajectory)),
    )


def _said(trajectory: Trajectory) -> Iterator[Said]:
    for message in trajectory.task.prompt:
        yield Said("system" if message.role == "system" else "user", tidy(message.content))
    for turn in trajectory.turns:
        if turn.user:
            yield Said("user", tidy(turn.user))
        yield Said("assistant", tidy(_words(turn)), calls=tuple(_called(call) for call in turn.parsed.calls))
        for call, result in zip(turn.parsed.calls, turn.results, strict=False):
            yield Said(
                "tool",
                tidy(result.content),
                name=tidy(call.name),
                call_id=tidy(call.id),
                seconds=result.seconds,
                is_error=result.is_error,
            )
    if trajectory.last_reply:
        yield Said("user", tidy(trajectory.last_reply))


def _words(turn: Turn) -> str:
    parsed = turn.parsed
    error = "" if parsed.error is None else f"[{parsed.error.kind}: {parsed.error.message}]"
    return "\n\n".join(part for part in (parsed.reasoning, parsed.text, error) if part)


def _called(call: ToolCall) -> CallRecord:
    return CallRecord(tidy(call.id), tidy(call.name), tidy(json.dumps(dict(call.arguments), default=str)))


def tidy(text: str) -> str:
    """Shorten to about MAX_CHARS by a cut in the middle; replace lone surrogates, which are invalid UTF-8."""
    if len(text) > MAX_CHARS:
        half = MAX_CHARS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    return text.encode("utf-8", "replace").decode()


def transcript(episode: EpisodeRecord) -> str:
    outcome = "success" if episode.is_success else "no success"
    parts = ", ".join(f"{name} {value:g}" for name, value in episode.parts.items())
    head = (
        f"{episode.task_id} · {episode.id}\n"
        f"{outcome} · reward {episode.reward:g} ({parts}) · {episode.stop} · {episode.num_turns} turns · "
        f"{episode.num_calls} calls · {episode.num_tokens} tokens · {episode.seconds:.2f} s"
    )
    return "\n\n".join([head, *(_message(said) for said in episode.said)])


def _message(said: Said) -> str:
    label = f"{said.role} {said.name}".strip()
    if said.role == "tool":
        label += f" ({'error, ' if said.is_error else ''}{said.seconds * 1000:.0f} ms)"
    calls = [f"→ {call.name} {call.arguments}" for call in said.calls]
    return "\n".join([f"[{label}]", *([said.content] if said.content else []), *calls])
