"""The state of a run between two steps; with the trainer's own state, all that resuming needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from turnwise.run.batches import CollectedBatch
from turnwise.tasks.curriculum import CurriculumState, state_of
from turnwise.tasks.plan_starts import PlanStarts, plan_starts_of


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The next step, the data cursor, and the best validation so far."""

    next_step: int
    curriculum: CurriculumState
    best_step: int | None = None
    """The number of steps done when validation was best."""
    best_success: float = -1.0
    plan_starts: PlanStarts = field(default_factory=PlanStarts)

    def after(self, batch: CollectedBatch) -> "RunProgress":
        """The state after the update on this batch."""
        return replace(
            self, next_step=batch.step + 1, curriculum=batch.curriculum, plan_starts=batch.plan_starts
        )

    def with_success(self, success: float) -> "RunProgress":
        """The state after a validation with this success."""
        if success <= self.best_success:
            return self
        return replace(self, best_step=self.next_step, best_success=success)

    def as_json(self) -> dict[str, Any]:
        return {
            "next_step": self.next_step,
            "curriculum": self.curriculum.as_json(),
            "best_step": self.best_step,
            "best_success": self.best_success,
            "plan_starts": self.plan_starts.as_json(),
        }


def progress_of(saved: Mapping[str, Any]) -> RunProgress:
    """The inverse of `RunProgress.as_json`; ValueError if the value has another shape."""
    try:
        return RunProgress(
            saved["next_step"],
            state_of(saved["curriculum"]),
            saved["best_step"],
            saved["best_success"],
            plan_starts_of(saved["plan_starts"]),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a checkpoint's progress is damaged: {type(error).__name__}: {error}") from None
