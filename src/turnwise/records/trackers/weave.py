"""Send episodes and evaluations to Weave as traces; it keeps no metrics."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import weave

from turnwise.records.trackers.messages import EpisodeRecord, Evaluation, HistogramRecord, Said
from turnwise.records.trackers.tracker import Start


class WeaveTracker:
    """Needs the network and WANDB_API_KEY: Weave has no offline mode."""

    def __init__(self, start: Start) -> None:
        self._name = start.name
        self._client = weave.init(
            start.project,
            settings={
                "capture_code": False,
                "enable_disk_fallback": False,  # losses are reported, not written to the working directory
                "implicitly_patch_integrations": False,
                "log_level": "ERROR",
                "print_call_link": False,
            },
            attributes={"run": start.name},
        )
        self._complaints = _Complaints(logging.ERROR)
        logging.getLogger("weave").addHandler(self._complaints)
        self.where = f"weave project {self._client.entity}/{self._client.project}"

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Does nothing: Weave keeps traces and evaluations, not metrics."""

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None:
        """Does nothing, like `log`."""

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        for episode in episodes:
            call = weave.log_call(
                "episode",
                inputs={"task": episode.task_id, "question": episode.question},
                output=_outcome(episode),
                attributes={"step": step, "episode": episode.id},
                use_stack=False,
            )
            for position, said in enumerate(episode.said):
                if said.role in ("assistant", "tool"):
                    _log_turn(said, episode.said[:position], call)

    def evaluation(self, evaluation: Evaluation) -> None:
        logger = weave.EvaluationLogger(
            name=f"{self._name} {evaluation.name}",
            model=_identifier(f"{self._name}_step_{evaluation.step}"),
            dataset=_identifier(f"{evaluation.name}_tasks"),
            eval_attributes={"step": evaluation.step, "model": evaluation.model},
        )
        for episode in evaluation.episodes:
            prediction = logger.log_prediction(
                {"task": episode.task_id, "question": episode.question}, _outcome(episode)
            )
            prediction.log_score("success", episode.is_success)
            prediction.log_score("reward", episode.reward)
            prediction.finish()
        logger.log_summary(dict(evaluation.figures))

    def cut(self, num_steps: int) -> None:
        """Does nothing: sent traces stay, and every trace names its run and step."""

    def close(self) -> None:
        """Wait for Weave's threads. It only logs failed uploads; here they raise ConnectionError."""
        self._client.finish(use_progress_bar=False)
        if self._complaints.said:
            number, first = len(self._complaints.said), self._complaints.said[0]
            raise ConnectionError(f"{number} times something could not be sent, at first: {first}")


class _Complaints(logging.Handler):
    """A log handler that collects messages."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def _outcome(episode: EpisodeRecord) -> dict[str, Any]:
    return {
        "answer": episode.answer,
        "success": episode.is_success,
        "reward": episode.reward,
        "parts": dict(episode.parts),
        "stop": episode.stop,
        "turns": episode.num_turns,
        "tokens": episode.num_tokens,
        "seconds": episode.seconds,
        "family": episode.family,
        "difficulty": episode.difficulty,
    }


def _log_turn(said: Said, before: Sequence[Said], parent: Any) -> None:
    """Log a model turn with the messages before it, or a tool result with the call that it answers."""
    if said.role == "tool":
        asked = {call.id: call.arguments for handler in before for call in handler.calls}
        inputs: dict[str, Any] = {"tool": said.name, "arguments": asked.get(said.call_id, "")}
        output: dict[str, Any] = {
            "content": said.content,
            "is_error": said.is_error,
            "seconds": said.seconds,
        }
    else:
        inputs = {"messages": [{"role": handler.role, "content": handler.content} for handler in before]}
        calls = [{"tool": call.name, "arguments": call.arguments} for call in said.calls]
        output = {"content": said.content, "calls": calls}
    kind = "tool_call" if said.role == "tool" else "model_turn"
    weave.log_call(kind, inputs=inputs, output=output, parent=parent, use_stack=False)


def _identifier(text: str) -> str:
    """A valid name for a Weave model or dataset: letters, digits and `_`, starting with a letter."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", text)
    return plain if plain[:1].isalpha() else f"run_{plain}"
