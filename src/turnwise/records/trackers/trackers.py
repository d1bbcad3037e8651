"""All trackers of a recipe as one: every record goes to each, and none is waited for."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.config import Recipe, TrackerConfig
from turnwise.records.trackers.environment import variables
from turnwise.records.trackers.episodes import IsSuccess, Scored, episodes_of, first_of
from turnwise.records.trackers.messages import Cut, Episodes, Evaluation, HistogramRecord, Log
from turnwise.records.trackers.outbox import Outbox
from turnwise.records.trackers.tracker import Start, check
from turnwise.types import Group

logger = logging.getLogger(__name__)

_HASTY_SECONDS = 3.0
"""The wait after a failure or a second Ctrl-C: enough for trackers that write to this machine."""

_PROJECT = "turnwise"
_PROJECT_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "wandb": ("WANDB_PROJECT",),
    "weave": ("WEAVE_PROJECT", "WANDB_PROJECT"),
    "trackio": ("WANDB_PROJECT",),
}


class Trackers:
    """A run's trackers, possibly none. Every method but `close` returns at once, even if a tracker fails."""

    def __init__(self, outboxes: Sequence[Outbox], configs: Sequence[TrackerConfig]) -> None:
        self._outboxes = list(zip(outboxes, configs, strict=True))

    def log(
        self,
        step: int,
        metrics: Mapping[str, float],
        histograms: Mapping[str, Any],
        alarms: Sequence[Any],
    ) -> None:
        """Send the arguments of `RunFolder.log`; an alarm that fired becomes the metric `alarm/NAME` = 1."""
        figures = dict(metrics)

        def make() -> Log:
            fired = {f"alarm/{alarm.name}": 1.0 for alarm in alarms}
            bins = {
                name: HistogramRecord(tuple(histogram.edges), tuple(histogram.counts))
                for name, histogram in histograms.items()
            }
            return Log(step, {**figures, **fired}, bins)

        for outbox, _ in self._outboxes:
            outbox.put(make)

    def episodes(self, step: int, groups: Sequence[Group], is_success: IsSuccess) -> None:
        for outbox, config in self._outboxes:
            chosen = first_of(groups, config.episodes_per_step)
            if chosen:
                outbox.put(_episodes(step, chosen, is_success), 1 + len(chosen))

    def evaluation(
        self,
        name: str,
        step: int,
        model: str,
        figures: Mapping[str, float],
        groups: Sequence[Group],
        is_success: IsSuccess,
    ) -> None:
        for outbox, config in self._outboxes:
            chosen = first_of(groups, config.episodes_per_evaluation)
            outbox.put(_evaluation(name, step, model, figures, chosen, is_success), 1 + len(chosen))

    @property
    def episodes_per_evaluation(self) -> int:
        """The largest number that any tracker takes; no more episodes need to be kept."""
        return max((config.episodes_per_evaluation for _, config in self._outboxes), default=0)

    def cut(self, num_steps: int) -> None:
        for outbox, _ in self._outboxes:
            outbox.put(lambda: Cut(num_steps))

    @property
    def places(self) -> list[str]:
        """Where to look at the run, for every tracker that is ready."""
        return [f"{outbox.kind}: {outbox.where}" for outbox, _ in self._outboxes if outbox.where]

    def close(self, *, is_hasty: bool = False) -> None:
        """Close all trackers in parallel, each within its `close_seconds`; log how many records were lost."""
        started = time.monotonic()
        for outbox, _ in self._outboxes:
            outbox.begin_close()
        try:
            for outbox, config in self._outboxes:
                outbox.finish_close(
                    started, min(config.close_seconds, _HASTY_SECONDS if is_hasty else math.inf)
                )
        finally:
            for outbox, _ in self._outboxes:
                outbox.kill()
                if outbox.loss:
                    logger.warning("%s", outbox.loss)
        self._outboxes.clear()


NO_TRACKERS = Trackers((), ())


def start_trackers(recipe: Recipe, folder: Path) -> Trackers:
    """Start every tracker in its own process, without waiting. ValueError if a library is missing."""
    check(recipe.trackers)
    if not recipe.trackers:
        return NO_TRACKERS
    environment = variables()
    document = recipe.model_dump(mode="json")
    starts = [
        Start(
            config=config,
            project=project_of(config, environment),
            name=folder.name,
            folder=str(folder.resolve()),
            recipe=document,
        )
        for config in recipe.trackers
    ]
    return Trackers([Outbox(start, environment) for start in starts], recipe.trackers)


def project_of(config: TrackerConfig, given: Mapping[str, str]) -> str:
    """The project of the recipe, else of the environment, else `turnwise`."""
    named = (given.get(name, "") for name in _PROJECT_VARIABLES.get(config.kind, ()))
    return config.project or next(filter(None, named), _PROJECT)


def _episodes(step: int, scored: Sequence[Scored], is_success: IsSuccess) -> Callable[[], Episodes]:
    return lambda: Episodes(step, episodes_of(scored, is_success))


def _evaluation(
    name: str,
    step: int,
    model: str,
    figures: Mapping[str, float],
    scored: Sequence[Scored],
    is_success: IsSuccess,
) -> Callable[[], Evaluation]:
    return lambda: Evaluation(name, step, model, figures, episodes_of(scored, is_success))
