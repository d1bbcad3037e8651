"""The sections of a recipe that say how a run goes: steps, checkpoints, evaluations, curriculum, alarms."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from turnwise.config.playing import STRICT
from turnwise.config.sampling import Temperature


class RunConfig(BaseModel):
    """The loop."""

    model_config = STRICT

    num_steps: int = Field(default=100, ge=0)
    """Updates in all; where num_epochs is set, it is computed from that."""
    num_epochs: int | None = Field(default=None, ge=1)
    """Passes over tasks.train in the place of num_steps: each pass draws every task once, shuffled."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Groups an update learns from."""
    folder: Path = Path("runs")
    """Where run folders are made; `runs` of the current directory by default."""
    name: str = ""
    """Of the run's folder; empty: the recipe's name and the time."""
    mode: Literal["sync", "async"] = "sync"
    """async: the next batch is collected while this one is learned from."""
    max_staleness: int = Field(default=1, ge=1)
    """async: most versions between sampling a batch and learning from it."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; one is always made at the end."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """The last ones that are kept, and the best on validation."""
    num_token_groups: int = Field(default=8, ge=0)
    """First groups of a step whose every token's advantage, ratio and clipping are in tokens/; 0: none."""

    def steps_over(self, num_tasks: int) -> int:
        """Updates in all, for this number of training tasks."""
        if self.num_epochs is None:
            return self.num_steps
        return -(-self.num_epochs * num_tasks // self.tasks_per_step)

    def epoch_of(self, step: int, num_tasks: int) -> int:
        """The pass, counted from 1, that the first task of a step belongs to."""
        return step * self.tasks_per_step // num_tasks + 1

    def check_enough(self, num_tasks: int) -> None:
        """ValueError if there are fewer tasks than a step plays."""
        if num_tasks < self.tasks_per_step:
            raise ValueError(
                f"tasks.train has {num_tasks} tasks, run.tasks_per_step is {self.tasks_per_step}"
            )


class EvaluationConfig(BaseModel):
    """Measuring during the run, on tasks.validation, and before and after it on tasks.test."""

    model_config = STRICT

    every: int = Field(default=0, ge=0)
    """Steps between validations; 0: none."""
    num_tasks: int | None = Field(default=None, ge=1)
    """Of the file, drawn evenly across families; none: all."""
    num_samples: int = Field(default=4, ge=1)
    """Episodes of each task."""
    temperature: Temperature = 1.0
    """1: the policy as it is trained; 0: greedy."""
    is_before_and_after: bool = True
    """Whether the held-out tasks are played before the first step and after the last."""


class CurriculumConfig(BaseModel):
    """Which tasks come when."""

    model_config = STRICT

    kind: Literal["uniform", "schedule", "success"] = "uniform"
    """schedule: mixtures by step; success: the next difficulty when this one succeeds."""
    points: tuple[tuple[int, tuple[float, float, float]], ...] = ((0, (1.0, 1.0, 1.0)),)
    """schedule: (step, (easy, medium, hard)), in straight lines between."""
    threshold: float = Field(default=0.7, gt=0, le=1)
    """success: share of successes that promotes."""
    window: int = Field(default=64, ge=1)
    """success: episodes that count."""
    review: float = Field(default=0.2, ge=0, lt=1)
    """success: share of tasks from levels already passed."""


class Rule(BaseModel):
    """When a figure becomes an alarm, and what then."""

    model_config = STRICT

    action: Literal["off", "warn", "halt"] = "warn"
    """halt: the run stops after a checkpoint."""
    threshold: float = 0.0
    """The figure's limit."""


class HealthConfig(BaseModel):
    """Alarms on every step; docs/troubleshooting.md says what each means and what to try."""

    model_config = STRICT

    alignment: Rule = Rule(action="halt", threshold=0.99)
    """Below: trained tokens are not the sampled ones."""
    active_fraction: Rule = Rule(threshold=0.5)
    """Below: most tokens are clipped."""
    kl_reference: Rule = Rule(threshold=0.5)
    """Above, nats a token: the policy is far from its reference."""
    kl_sampler: Rule = Rule(threshold=0.05)
    """Above, nats a token: engine and trainer disagree."""
    learnable_fraction: Rule = Rule(threshold=0.3)
    """Below: most sampled tokens are masked."""
    truncation: Rule = Rule(threshold=0.3)
    """Above: episodes are cut off."""
    tool_errors: Rule = Rule(threshold=0.5)
    """Above, share of calls that failed by the model's doing."""
    zero_variance: Rule = Rule(threshold=1.0)
    """At this share of groups without variance there is nothing to learn from."""
    dead_gradient: Rule = Rule(threshold=0.0)
    """Gradient norm at or below this with advantages that are not 0."""
    stuck_ratio: Rule = Rule(threshold=0.0)
    """Ratio std at or below this after the first optimizer step of an update."""
    not_a_number: Rule = Rule(threshold=0.0)
    """More updates than this skipped for NaN or infinity in a row."""
    kl_cap: Rule = Rule(action="halt", threshold=9.0)
    """More updates than this skipped by algorithm.kl.hard_cap in a row."""
    stuck_reference: Rule = Rule(threshold=0.0)
    """A reference that was due did not move, or not to where it should."""
