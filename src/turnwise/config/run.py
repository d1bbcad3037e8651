"""The recipe sections for a run: steps, checkpoints, evaluations, curriculum and alarms."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from turnwise.config.episodes import SECTION_CONFIG
from turnwise.config.sampling import Temperature


class RunConfig(BaseModel):
    """The training loop."""

    model_config = SECTION_CONFIG

    num_steps: int = Field(default=100, ge=0)
    """Total number of updates; computed from num_epochs if that is set."""
    num_epochs: int | None = Field(default=None, ge=1)
    """Passes over tasks.train, instead of num_steps; a pass draws every task once, shuffled."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Groups per update."""
    folder: Path = Path("runs")
    """Parent of the run folders; by default `runs` in the current directory."""
    name: str = ""
    """Name of the run folder; empty: the name of the recipe and the time."""
    mode: Literal["sync", "async"] = "sync"
    """async: the next batch is collected during the update."""
    max_staleness: int = Field(default=1, ge=1)
    """async: maximum number of weight versions between sampling a batch and its update."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; one is always written at the end."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Number of latest checkpoints to keep, in addition to the best on validation."""
    num_token_groups: int = Field(default=8, ge=0)
    """Groups per step whose advantages, ratios and clipping per token are written to tokens/; 0: none."""

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
    """Number of tasks of the file, drawn evenly across families; none: all."""
    num_samples: int = Field(default=4, ge=1)
    """Episodes per task."""
    temperature: Temperature = 1.0
    """Sampling temperature; 1: the policy as it is trained; 0: greedy."""
    is_before_and_after: bool = True
    """Whether the held-out tasks are played before the first step and after the last."""


class CurriculumConfig(BaseModel):
    """The order of tasks."""

    model_config = SECTION_CONFIG

    kind: Literal["uniform", "schedule", "success"] = "uniform"
    """uniform: all tasks, shuffled; schedule: a mixture of difficulties by step; success: the next difficulty
    once this one succeeds."""
    points: tuple[tuple[int, tuple[float, float, float]], ...] = ((0, (1.0, 1.0, 1.0)),)
    """schedule: (step, (easy, medium, hard)), interpolated linearly."""
    threshold: float = Field(default=0.7, gt=0, le=1)
    """success: success rate that unlocks the next difficulty."""
    window: int = Field(default=64, ge=1)
    """success: number of recent episodes that the rate is computed from."""
    review: float = Field(default=0.2, ge=0, lt=1)
    """success: share of tasks from difficulties already passed."""


class Rule(BaseModel):
    """The limit of a metric and what to do past it."""

    model_config = SECTION_CONFIG

    action: Literal["off", "warn", "halt"] = "warn"
    """warn: report it; halt: stop the run after a checkpoint."""
    threshold: float = 0.0
    """The limit of the metric."""


class HealthConfig(BaseModel):
    """Alarms on every step; docs/troubleshooting.md explains them and their remedies."""

    model_config = SECTION_CONFIG

    alignment: Rule = Rule(action="halt", threshold=0.99)
    """Below: trained tokens are not the sampled ones."""
    active_fraction: Rule = Rule(threshold=0.5)
    """Below: most tokens are clipped."""
    kl_reference: Rule = Rule(threshold=0.5)
    """Above, in nats per token: the policy is far from its reference."""
    kl_sampler: Rule = Rule(threshold=0.05)
    """Above, in nats per token: engine and trainer disagree."""
    learnable_fraction: Rule = Rule(threshold=0.3)
    """Below: most sampled tokens are masked."""
    truncation: Rule = Rule(threshold=0.3)
    """Above: too many episodes are truncated."""
    tool_errors: Rule = Rule(threshold=0.5)
    """Above, share of calls that failed because of the model."""
    zero_variance: Rule = Rule(threshold=1.0)
    """At or above this share of groups with equal rewards there is nothing to learn from."""
    dead_gradient: Rule = Rule(threshold=0.0)
    """Gradient norm at or below this with nonzero advantages."""
    stuck_ratio: Rule = Rule(threshold=0.0)
    """Standard deviation of the ratio at or below this after the first optimizer step of an update."""
    not_a_number: Rule = Rule(threshold=0.0)
    """More consecutive updates than this skipped for NaN or infinity."""
    kl_cap: Rule = Rule(action="halt", threshold=9.0)
    """More consecutive updates than this skipped by algorithm.kl.hard_cap."""
    stuck_reference: Rule = Rule(threshold=0.0)
    """The reference was not updated when it should have been, or not correctly."""
