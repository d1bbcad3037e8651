"""Evaluations: how they are made, what they found, and how two of them compare."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

from rich.console import Console

from turnwise.config import Recipe
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.measure.report import (
    Comparison,
    EvaluationReport,
    compare,
    print_comparison,
    print_report,
    read_report,
    trajectories_of,
)
from turnwise.rollout.measure.statistics import Estimate
from turnwise.rollout.measure.summary import Summary, summarise
from turnwise.rollout.store import StoredEpisode, read_episodes
from turnwise.run.playing import evaluate_agent, on_stderr
from turnwise.setup.agent import resolve_agent
from turnwise.setup.request import RunRequest
from turnwise.system.background import run_in_thread

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished evaluation; `print` shows its table."""

    report: EvaluationReport
    path: Path
    """The eval.json; the episodes are next to it."""

    @property
    def summary(self) -> Summary:
        """The figures over all tasks."""
        return summarise(self.report.episodes)

    @property
    def success(self) -> Estimate:
        """The success rate, with its 95 % interval."""
        return self.summary.success

    def episodes(self) -> list[StoredEpisode]:
        """Return every episode that was played, with its reward."""
        return list(read_episodes(trajectories_of(self.path)))

    def compare(self, before: "Evaluation | str | Path") -> "EvaluationComparison":
        """Compare success with that of an earlier evaluation of the same tasks, task by task."""
        earlier = before.report if isinstance(before, Evaluation) else read_report(Path(before))
        return EvaluationComparison(compare(earlier, self.report))

    def __str__(self) -> str:
        return _captured(lambda console: print_report(self.report, console=console))


@dataclass(frozen=True, slots=True)
class EvaluationComparison:
    """Two evaluations compared task by task; `print` shows the table."""

    compared: Comparison

    @property
    def difference(self) -> Estimate:
        """Success after minus success before, with its 95 % interval."""
        return self.compared.difference

    @property
    def by_family(self) -> Mapping[str, Estimate]:
        return self.compared.by_family

    def __str__(self) -> str:
        return _captured(lambda console: print_comparison(self.compared, console=console))


def evaluate_request(
    request: RunRequest,
    recipe: Recipe,
    *,
    which: int | Literal["best"] | None = None,
    samples: int,
    temperature: float,
    out: str | Path | None,
    quiet: bool,
) -> Evaluation:
    """Evaluate what was asked for; `which` is the checkpoint of a run."""
    agent = resolve_agent(request, recipe, "test", which)
    report, written = run_in_thread(
        lambda: evaluate_agent(
            agent,
            out=None if out is None else Path(out),
            num_samples=samples,
            temperature=temperature,
            shown=nothing_shown if quiet else on_stderr,
        )
    )
    return Evaluation(report, written)


def checkpoint_choice(step: int | None, best: bool) -> int | Literal["best"] | None:
    """Return which checkpoint is meant; None is the best on validation, or the last without validations."""
    if best and step is not None:
        raise ValueError(f"step={step} and best=True name different checkpoints: give one")
    return "best" if best else step


def nothing_shown(_progress: Progress, _num_episodes: int) -> AbstractAsyncContextManager[None]:
    return nullcontext()


def _captured(show: Callable[[Console], None]) -> str:
    text = StringIO()
    # in a notebook, rich would display the lines and leave the text empty
    show(Console(file=text, width=_WIDTH, emoji=False, force_jupyter=False))
    return text.getvalue().rstrip()
