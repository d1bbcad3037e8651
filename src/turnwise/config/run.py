"""The recipe sections for a run: steps, checkpoints, evaluations, curriculum and alarms."""

import itertools
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from turnwise.config.episodes import SECTION_CONFIG
from turnwise.config.sampling import Temperature

Tag = Annotated[str, StringConstraints(pattern=r"^[\w.:/-]{1,40}$")]
"""A word of at most 40 characters."""


class RunConfig(BaseModel):
    """The training loop."""

    model_config = SECTION_CONFIG

    num_steps: int = Field(default=100, ge=0)
    """Total number of updates; computed from num_epochs if that is set."""
    num_epochs: int | None = Field(default=None, ge=1)
    """Passes over tasks.train, instead of num_steps; a pass draws every task once, shuffled."""
    warm_start: bool = False
    """Learn from the demonstrations of tasks.train before the first step, as `turnwise sft` does by [sft]."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Groups per update."""
    folder: Path = Path("runs")
    """Parent of the run folders; by default `runs` in the current directory."""
    name: str = ""
    """Name of the run folder; empty: the name of the recipe and the time."""
    tags: tuple[Tag, ...] = ()
    """Words by which `turnwise view` finds the run, e.g. ["sweep"]; W&B's own tags come from WANDB_TAGS."""
    mode: Literal["sync", "async"] = "sync"
    """async: the next batch is collected during the update."""
    max_staleness: int = Field(default=1, ge=1)
    """async: maximum number of weight versions between sampling a batch and its update."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints. One is also written at the end, and about every five minutes if saving then
    takes at most 2% of the time."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Number of latest checkpoints to keep, in addition to the best on validation."""

    def num_steps_for(self, num_tasks: int) -> int:
        """The total number of updates, for this number of training tasks."""
        if self.num_epochs is None:
            return self.num_steps
        return -(-self.num_epochs * num_tasks // self.tasks_per_step)

    def epoch_of(self, step: int, num_tasks: int) -> int:
        """The epoch of the first task of a step, counted from 1."""
        return step * self.tasks_per_step // num_tasks + 1

    def check_num_tasks(self, num_tasks: int) -> None:
        """Raise ValueError if there are fewer tasks than run.tasks_per_step."""
        if num_tasks < self.tasks_per_step:
            raise ValueError(
                f"tasks.train has {num_tasks} tasks, run.tasks_per_step is {self.tasks_per_step}"
            )


class EvaluationConfig(BaseModel):
    """Evaluation on tasks.validation during the run, and on tasks.test before and after it."""

    model_config = SECTION_CONFIG

    every: int = Field(default=0, ge=0)
    """Steps between validations; 0: none."""
    num_tasks: int | None = Field(default=None, ge=1)
    """Number of tasks of the file, drawn evenly across families; unset: all."""
    num_samples: int = Field(default=4, ge=1)
    """Episodes per task."""
    temperature: Temperature = 1.0
    """Sampling temperature; 1: the policy as it is trained; 0: greedy."""
    plain: bool = True
    """Whether evaluations play without rollout.hints, max_repeats and mark_repeats and read no Python
    literals as JSON, so that their figures do not depend on these."""
    before_and_after: bool = True
    """Whether the held-out tasks are played before the first step and after the last."""


class CurriculumConfig(BaseModel):
    """The order of tasks."""

    model_config = SECTION_CONFIG

    kind: Literal["learnability", "uniform", "schedule", "success"] = "learnability"
    """learnability: tasks that some members of a group will probably solve and others not; uniform: all
    tasks, shuffled; schedule: a mixture of difficulties by step; success: the next difficulty once this one
    succeeds."""
    points: tuple[tuple[int, tuple[float, float, float]], ...] = ((0, (1.0, 1.0, 1.0)),)
    """schedule: (step, (easy, medium, hard)), interpolated linearly."""
    threshold: float = Field(default=0.7, gt=0, le=1)
    """success: success rate, over as many episodes as a step has, that unlocks the next difficulty."""
    plan_starts: bool = True
    """Whether a task whose episodes all failed starts inside its demonstration the next time: the first calls
    are played for the model, and fewer of them as it succeeds. Such episodes are never counted as successes
    of the task. Tasks without a demonstration always start at the beginning."""


Alarm = Literal[
    "alignment",
    "active_fraction",
    "kl_reference",
    "kl_sampler",
    "learnable_fraction",
    "truncation",
    "tool_errors",
    "zero_variance",
    "dead_gradient",
    "stuck_ratio",
    "not_a_number",
    "kl_cap",
    "family_fall",
    "validation_fall",
    "lost_episodes",
    "lost_family",
    "stuck_reference",
]
"""The alarms by name; run/health/health.py has their limits."""


class HealthConfig(BaseModel):
    """What an alarm does, by name; docs/troubleshooting.md explains the alarms and their remedies."""

    model_config = SECTION_CONFIG

    halt: tuple[Alarm, ...] = ("alignment", "kl_cap")
    """Alarms that stop the run after a checkpoint; the others are only reported."""
    roll_back: tuple[Alarm, ...] = ()
    """Alarms that put the weights back to the last checkpoint from before the fall, or from before this step,
    and halve the learning rate from there on; the run goes on."""
    ignore: tuple[Alarm, ...] = ()
    """Alarms that are not reported."""

    @model_validator(mode="after")
    def _do_not_overlap(self) -> "HealthConfig":
        keys = {"halt": self.halt, "roll_back": self.roll_back, "ignore": self.ignore}
        for one, other in itertools.combinations(keys, 2):
            if both := sorted(set(keys[one]) & set(keys[other])):
                raise ValueError(f"{', '.join(both)}: named in both {one} and {other}")
        return self
