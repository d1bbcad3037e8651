"""The checkpoints of a training run: when one is due, and going back to one."""

import logging
import time
from collections.abc import Sequence

from turnwise.config import Recipe
from turnwise.records.folder import RunFolder
from turnwise.run.health.falls import Watched
from turnwise.run.health.health import Alarm
from turnwise.run.progress import RunProgress, progress_of
from turnwise.run.save_clock import SaveClock
from turnwise.run.screen.screen import Screen
from turnwise.system.ranks import Ranks, first_rank_value, first_reason, is_first
from turnwise.tasks.curriculum import CurriculumState
from turnwise.tasks.plan_starts import PlanStarts
from turnwise.training.update import checkpoint
from turnwise.training.update.trainer import Trainer

logger = logging.getLogger(__name__)


class Checkpoints:
    """Saves the trainer and the progress of a run, and loads them again."""

    def __init__(
        self, recipe: Recipe, folder: RunFolder, trainer: Trainer, screen: Screen, ranks: Ranks
    ) -> None:
        self._recipe = recipe
        self._folder = folder
        self._place = folder.checkpoints
        self._trainer = trainer
        self._screen = screen
        self._ranks = ranks
        self._save_clock = SaveClock()

    def is_save_due(self, progress: RunProgress) -> bool:
        is_last = progress.next_step == self._recipe.run.num_steps
        is_best = progress.best_step == progress.next_step
        is_due = first_rank_value(self._ranks, self._save_clock.end_step())  # all ranks save, or none
        return is_due or is_last or is_best or progress.next_step % self._recipe.run.checkpoint_every == 0

    def save(self, progress: RunProgress) -> None:
        started = time.monotonic()
        facts = {"standing": progress.as_json(), "trainer": self._trainer.facts()}
        tensors = self._trainer.tensors()
        checkpoint.save(self._place, progress.next_step, tensors, facts, self._ranks)
        if is_first(self._ranks):
            checkpoint.prune(self._place, self._recipe.run.keep_checkpoints, progress.best_step)
        seconds = time.monotonic() - started
        self._save_clock.end_save(seconds)
        logger.info("saved a checkpoint after step %d in %.1f s", progress.next_step, seconds)

    def roll_back(self, progress: RunProgress, alarms: Sequence[Alarm], falls: Watched) -> bool:
        """Put the weights back if an alarm of health.roll_back was raised; whether that was done."""
        wanted = (alarm.name for alarm in alarms if alarm.name in self._recipe.health.roll_back)
        names = first_reason(self._ranks, ", ".join(wanted))
        if not names:
            return False
        latest = progress.next_step - 1
        if progress.best_step is not None and "validation_fall" in names:
            latest = min(latest, progress.best_step)
        if falls.since is not None:
            latest = min(latest, falls.since)
        kept = checkpoint.not_after(self._place, latest)
        path = first_rank_value(self._ranks, kept)
        if path is None or progress.best_step == progress.next_step:
            lacking = f"no checkpoint of step {latest} or before is kept"
            why = lacking if path is None else "this validation is the best"
            self._screen.say(f"{names}: not rolled back: {why}", "yellow", level=logging.WARNING)
            return False
        try:
            healthy = checkpoint.load(path)
        except checkpoint.Unreadable as error:
            raise ValueError(f"health.roll_back: {error}") from None
        self._trainer.roll_back(healthy.tensors, healthy.facts["trainer"])
        self._screen.say(
            f"{names}: the weights are those after step {healthy.step} again, at half the learning rate",
            "yellow",
            level=logging.WARNING,
        )
        return True

    def load_best(self, progress: RunProgress) -> bool:
        """Load the weights that were best on validation; False if the last ones stay."""
        best = progress.best_step
        if best is None or best == progress.next_step:
            return False
        path = first_rank_value(self._ranks, checkpoint.at_step(self._place, best))
        assert path is not None, "prune keeps the best checkpoint"
        problem = ""
        try:
            saved = checkpoint.load(path)
        except checkpoint.Unreadable as error:
            problem = str(error)
        if problem := first_reason(self._ranks, problem):
            words = f"the run ends with its last weights: {problem}"
            self._screen.say(words, "yellow", level=logging.WARNING)
            return False
        self._trainer.restore(saved.tensors, saved.facts["trainer"])
        self._screen.say(
            f"the run ends with the weights after step {best}, the best on validation "
            f"({progress.best_success:.3f}); step {progress.next_step} was the last"
        )
        return True

    def restore(self) -> RunProgress:
        """Load the last readable checkpoint, if any; what was written after it moves to `dropped`."""
        try:
            saved = checkpoint.latest_of_all(self._place, self._ranks)
        except checkpoint.Unreadable as error:
            raise ValueError(f"{self._folder.path}: no checkpoint can be read: {error}") from error
        if saved is None:
            if dropped := self._folder.cut(0):
                self._screen.resumed(0, dropped)
            seed = self._recipe.seed
            return RunProgress(0, CurriculumState(seed=seed), plan_starts=PlanStarts(seed))
        try:
            progress = progress_of(saved.facts.get("standing", {}))
            if progress.next_step != saved.step:
                raise ValueError(f"its progress is that of step {progress.next_step}")
            self._trainer.restore(saved.tensors, saved.facts["trainer"])
        except (LookupError, ValueError) as error:  # its digests are right, so somebody has changed it
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(f"{saved.path}: not a checkpoint of this run: {reason}") from None
        self._screen.resumed(progress.next_step, self._folder.cut(progress.next_step))
        return progress
