"""The seam: what a tracker is, which ones there are, and what one is told when it starts."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turnwise.config import TrackerConfig
from turnwise.config.requirements import is_installed
from turnwise.tracking.records import Cut, EpisodeRecord, Episodes, Evaluation, HistogramRecord, Log, Record


@dataclass(frozen=True, slots=True)
class Start:
    """What a tracker is told when it starts."""

    config: TrackerConfig
    project: str
    name: str
    """Of the run."""
    folder: str
    """The run's; what a tracker writes on this machine goes there, in a folder of its kind."""
    recipe: Mapping[str, Any]
    """As it was resolved."""


class Tracker(Protocol):
    """Takes a run's figures and episodes; lives in a process of its own, so it may wait and it may fail."""

    @property
    def where(self) -> str:
        """Where to look at the run: an address, a folder, or the command that shows it."""
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Figures of a step; a step may come in several parts, and values may be NaN."""
        ...

    def histogram(self, step: int, name: str, histogram: HistogramRecord) -> None: ...

    def episodes(self, step: int, episodes: Sequence[EpisodeRecord]) -> None:
        """Some of a step's episodes. What is written in them may be hostile."""
        ...

    def evaluation(self, evaluation: Evaluation) -> None: ...

    def cut(self, num_steps: int) -> None:
        """A resumed run goes on from here: step `num_steps` and later ones come again."""
        ...

    def close(self) -> None:
        """Nothing follows: write what is left."""
        ...


TRACKERS: Mapping[str, str] = {
    "wandb": "turnwise.tracking.wandb:WandbTracker",
    "weave": "turnwise.tracking.weave:WeaveTracker",
    "tensorboard": "turnwise.tracking.tensorboard:TensorboardTracker",
    "trackio": "turnwise.tracking.trackio:TrackioTracker",
}
"""By kind; the module is imported by the tracker's own process alone."""


def check(trackers: Sequence[TrackerConfig]) -> None:
    """ValueError, with what to install, if the library of one is not there."""
    for tracker in trackers:
        module = tracker.kind.partition(":")[0]
        if not is_installed(module):
            hint = (
                f"install it with: pip install 'turnwise[{tracker.kind}]'"
                if tracker.kind in TRACKERS
                else "it is looked for beside where the command is run"
            )
            raise ValueError(f"trackers: {tracker.kind} needs the package {module!r}, not found; {hint}")


def new_tracker(start: Start) -> Tracker:
    """Import and start it; raises whatever its library does."""
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
