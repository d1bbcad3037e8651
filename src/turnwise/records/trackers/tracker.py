"""What a tracker is, the trackers by name, and what a tracker is started with."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turnwise.config import TrackerConfig
from turnwise.config.optional_packages import install_command
from turnwise.config.requirements import is_installed
from turnwise.records.trackers.messages import (
    Cut,
    EpisodeRecord,
    Episodes,
    Evaluation,
    HistogramRecord,
    Log,
    Record,
)


@dataclass(frozen=True, slots=True)
class Start:
    """The values that a tracker starts with."""

    config: TrackerConfig
    project: str
    name: str
    """The run's name."""
    folder: str
    """The run's folder; a tracker writes local files to a subfolder named after its kind."""
    recipe: Mapping[str, Any]
    """The resolved recipe."""


class Tracker(Protocol):
    """Receives a run's metrics and episodes. It has its own process, so it may block and may fail."""

    @property
    def where(self) -> str:
        """Where to look at the run: an address, a folder, or the command that shows it."""
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a step; a step may be logged in several calls, and values may be NaN."""
        ...

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None: ...

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        """Some of a step's episodes. Their text is untrusted."""
        ...

    def evaluation(self, evaluation: Evaluation) -> None: ...

    def cut(self, num_steps: int) -> None:
        """The run was resumed: step `num_steps` and later ones will be logged again."""
        ...

    def close(self) -> None:
        """Write what is buffered; no further calls follow."""
        ...


TRACKERS: Mapping[str, str] = {
    "wandb": "turnwise.records.trackers.wandb:WandbTracker",
    "weave": "turnwise.records.trackers.weave:WeaveTracker",
    "tensorboard": "turnwise.records.trackers.tensorboard:TensorboardTracker",
    "trackio": "turnwise.records.trackers.trackio:TrackioTracker",
}
"""The class of each kind, as `module:name`; only the tracker's own process imports the module."""


def check(trackers: Sequence[TrackerConfig]) -> None:
    """Raise ValueError, with what to install, if a tracker's library is missing."""
    for tracker in trackers:
        module = tracker.kind.partition(":")[0]
        if not is_installed(module):
            hint = (
                f"install it with: {install_command(tracker.kind)}"
                if tracker.kind in TRACKERS
                else "it is looked for in the folder where the command is run"
            )
            raise ValueError(f"trackers: {tracker.kind} needs the package {module!r}, not found; {hint}")


def new_tracker(start: Start) -> Tracker:
    """Import the tracker and start it; raises whatever its library raises."""
    kind = start.config.kind
    module, _, name = TRACKERS.get(kind, kind).partition(":")
    make: Callable[[Start], Tracker] = getattr(importlib.import_module(module), name)
    return make(start)


def tell(tracker: Tracker, record: Record) -> None:
    match record:
        case Log():
            if record.metrics:
                tracker.log(record.step, record.metrics)
            for name, histogram in record.histograms.items():
                tracker.histogram(record.step, name, histogram)
        case Episodes():
            tracker.episodes(record.step, record.episodes)
        case Evaluation():
            tracker.evaluation(record)
        case Cut():
            tracker.cut(record.num_steps)
