"""Send metrics and episodes to trackio, on this machine or on a Space of the hub."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import trackio

from turnwise.records.trackers.messages import EpisodeRecord, Evaluation, HistogramRecord, Said
from turnwise.records.trackers.tracker import Start


class TrackioTracker:
    """A resumed run continues under its name. Episodes are traces, which trackio shows as conversations."""

    def __init__(self, start: Start) -> None:
        self._run = trackio.init(
            project=start.project,
            name=start.name,
            config=dict(start.recipe),
            resume="allow",
            space_id=start.config.space or None,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        space = f"https://huggingface.co/spaces/{start.config.space}"
        self.where = space if start.config.space else f"trackio show --project {start.project}"

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._log(step, dict(metrics))

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None:
        bins = trackio.Histogram(np_histogram=(histogram.counts, histogram.closed_edges))
        self._log(step, {f"histogram/{name}": bins})

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        self._log(step, {"episodes": [_trace(episode) for episode in episodes]})

    def evaluation(self, evaluation: Evaluation) -> None:
        prefix = f"evaluation/{evaluation.name}"
        values: dict[str, Any] = {f"{prefix}/{name}": value for name, value in evaluation.figures.items()}
        if evaluation.episodes:
            values[f"{prefix}/episodes"] = [_trace(episode) for episode in evaluation.episodes]
        self._log(evaluation.step, values)

    def cut(self, num_steps: int) -> None:
        """Does nothing: sent records stay, and repeated steps are drawn over them."""

    def close(self) -> None:
        self._run.finish()

    def _log(self, step: int, values: dict[str, Any]) -> None:
        """Log, and raise trackio's warnings: it only warns about values it drops, which must be counted."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            self._run.log(values, step=step)
        if warned:
            raise ValueError("; ".join(str(warning.message) for warning in warned))


def _trace(episode: EpisodeRecord) -> trackio.Trace:
    return trackio.Trace(
        messages=[_message(said) for said in episode.said],
        metadata={
            "episode": episode.id,
            "task": episode.task_id,
            "family": episode.family,
            "difficulty": episode.difficulty,
            "success": episode.is_success,
            "reward": episode.reward,
            "parts": dict(episode.parts),
            "stop": episode.stop,
            "tokens": episode.num_tokens,
            "status": "ok" if episode.is_success else "error",
            "duration_ms": episode.seconds * 1000,
        },
    )


def _message(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role, "content": said.content}
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    if said.role == "tool":
        message |= {"name": said.name, "tool_call_id": said.call_id}
    return message
