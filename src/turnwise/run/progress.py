"""The state of a run between two steps; with the trainer's own state, all that resuming needs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from turnwise.rollout.measure.report import EvaluationReport
from turnwise.rollout.measure.summary import outcomes_by_task
from turnwise.run.batches import CollectedBatch
from turnwise.run.health.falls import FallTests, Watched, falls_as_json, falls_of, watch
from turnwise.tasks.curriculum import CurriculumState, state_of
from turnwise.tasks.plan_starts import PlanStarts, plan_starts_of
from turnwise.tasks.success_record import (
    GroupOutcome,
    SuccessRecord,
    record_as_json,
    record_of,
    with_outcomes,
)
from turnwise.tasks.temperatures import FamilyTemperatures
from turnwise.types import Task


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The next step, the data cursor, and the best validation so far."""

    next_step: Annotated[int, Field(ge=0)]
    curriculum: CurriculumState
    best_step: int | None = None
    """The number of steps done when validation was best; of equal ones, the last."""
    best_success: float = -1.0
    plan_starts: PlanStarts = field(default_factory=PlanStarts)
    temperatures: FamilyTemperatures = field(default_factory=FamilyTemperatures)
    falls: FallTests = field(default_factory=dict)
    """The tests of whether the success of training families fell."""
    validation_falls: FallTests = field(default_factory=dict)
    validation_record: SuccessRecord = field(default_factory=dict)
    """The outcomes of the validations so far."""

    def after(self, batch: CollectedBatch, tasks: Sequence[Task]) -> tuple["RunProgress", Watched]:
        """The state after the update on this batch, and whether the success of a family of `tasks` fell."""
        kinds = {task.id: (task.family, task.difficulty.value) for task in tasks}
        falls = watch(self.falls, batch.outcomes(), kinds, self.curriculum.record, batch.step)
        after = replace(
            self,
            next_step=batch.step + 1,
            curriculum=batch.curriculum,
            plan_starts=batch.plan_starts,
            temperatures=batch.temperatures,
            falls=falls.tests,
        )
        return after, falls

    def validated(self, report: EvaluationReport) -> tuple["RunProgress", Watched]:
        """The state after this validation, and whether success on its tasks fell."""
        step, before = self.next_step, self.validation_record
        kinds = {episode.task_id: (episode.family, episode.difficulty) for episode in report.episodes}
        outcomes = [
            (task_id, GroupOutcome(step, sum(own), len(own)))
            for task_id, own in outcomes_by_task(report.episodes).items()
        ]
        falls = watch(self.validation_falls, outcomes, kinds, before, step, is_repeated=True)
        after = replace(self, validation_falls=falls.tests, validation_record=with_outcomes(before, outcomes))
        return after.measured(report.success_at_least), falls

    def measured(self, success: float) -> "RunProgress":
        """The state after a validation with this success, in which what was not played has failed."""
        if success < self.best_success:
            return self
        return replace(self, best_step=self.next_step, best_success=success)

    def as_json(self) -> dict[str, Any]:
        return {
            "next_step": self.next_step,
            "curriculum": self.curriculum.as_json(),
            "best_step": self.best_step,
            "best_success": self.best_success,
            "plan_starts": self.plan_starts.as_json(),
            "temperatures": dict(self.temperatures.factors),
            "falls": falls_as_json(self.falls),
            "validation_falls": falls_as_json(self.validation_falls),
            "validation_record": record_as_json(self.validation_record),
        }


_TYPES = TypeAdapter(RunProgress)


def progress_of(saved: Mapping[str, Any]) -> RunProgress:
    """The inverse of `RunProgress.as_json`; ValueError if the value has another shape."""
    try:
        found = RunProgress(
            saved["next_step"],
            state_of(saved["curriculum"]),
            saved["best_step"],
            saved["best_success"],
            plan_starts_of(saved["plan_starts"]),
            FamilyTemperatures(saved["temperatures"]),
            falls_of(saved["falls"]),
            falls_of(saved["validation_falls"]),
            record_of(saved["validation_record"]),
        )
        return _TYPES.validate_python(asdict(found))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise ValueError(f"a checkpoint's progress is damaged: {place}: {error.errors()[0]['msg']}") from None
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a checkpoint's progress is damaged: {type(error).__name__}: {error}") from None
