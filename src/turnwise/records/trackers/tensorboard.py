"""Write metrics and episodes as TensorBoard event files in the run's folder."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from turnwise.records.trackers.episodes import transcript
from turnwise.records.trackers.messages import EpisodeRecord, Evaluation, HistogramRecord
from turnwise.records.trackers.tracker import Start


class TensorboardTracker:
    """Writes a new file each time the run is resumed; TensorBoard shows a folder's files as one run."""

    def __init__(self, start: Start) -> None:
        folder = Path(start.folder) / "tensorboard"
        self._writer = EventFileWriter(str(folder), flush_secs=10)
        self.where = f"tensorboard --logdir {folder}"
        self._write(0, _text("recipe", _verbatim(json.dumps(start.recipe, indent=1))))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write(step, *(Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()))

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None:
        edges = histogram.closed_edges
        proto = HistogramProto(
            min=edges[0],
            max=edges[-1],
            num=sum(histogram.counts),
            bucket_limit=edges[1:],
            bucket=histogram.counts,
        )
        self._write(step, Summary.Value(tag=f"histogram/{name}", histo=proto))

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        shown = "\n\n---\n\n".join(_verbatim(transcript(episode)) for episode in episodes)
        self._write(step, _text("episodes", shown))

    def evaluation(self, evaluation: Evaluation) -> None:
        self.log(
            evaluation.step,
            {f"evaluation/{evaluation.name}/{name}": value for name, value in evaluation.figures.items()},
        )

    def cut(self, num_steps: int) -> None:
        """Write a session start, at which TensorBoard drops earlier events of these steps."""
        session = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=num_steps, session_log=session))

    def close(self) -> None:
        self._writer.close()

    def _write(self, step: int, *values: Summary.Value) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))


def _text(tag: str, markdown: str) -> Summary.Value:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=shape)
    return Summary.Value(tag=tag, metadata=create_summary_metadata(tag, None), tensor=tensor)


def _verbatim(text: str) -> str:
    """The text as a Markdown code block, so that its markup is shown, not rendered."""
    return "\n".join(f"    {line}" for line in text.splitlines())
