"""A run's messages on the terminal and in its log: steps, alarms with advice, evaluations."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from io import StringIO
from typing import Any, ClassVar

from rich.console import Console
from rich.text import Text

from turnwise.config import Recipe, RunConfig
from turnwise.models.devices import choose_device
from turnwise.records.dropped_steps import DroppedSteps
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.display import print_episode
from turnwise.rollout.live_panel import shown
from turnwise.rollout.measure.report import EvaluationReport
from turnwise.rollout.measure.statistics import Estimate
from turnwise.rollout.measure.summary import summarise
from turnwise.rollout.store import StoredEpisode
from turnwise.run.health.health import Alarm, AlarmLevel
from turnwise.system.files.json_lines import plain
from turnwise.system.terminal import ON_SCREEN, counted, printable

logger = logging.getLogger(__name__)

Figures = Mapping[str, float]

_STYLES = {AlarmLevel.WARNING: "yellow", AlarmLevel.HALT: "red"}
_LEVELS = {AlarmLevel.WARNING: logging.WARNING, AlarmLevel.HALT: logging.ERROR}
_LOG_WIDTH = 110
"""Width in columns of an episode printed to the log."""


class Screen:
    """Prints plain lines. Every line also goes to the run's log, whether it is printed or not."""

    shows_steps: ClassVar[bool] = True
    shows_skipped: ClassVar[bool] = True
    shows_measurements: ClassVar[bool] = True

    def __init__(self, console: Console, run: RunConfig) -> None:
        self.console = console
        self._num_steps = run.num_steps
        self._num_epochs = run.num_epochs
        self._last_alarms: dict[str, int] = {}

    @contextmanager
    def showing(self) -> Iterator[None]:
        """A context that lasts as long as the run."""
        yield

    def say(self, text: str, style: str = "", *, level: int = logging.INFO, is_shown: bool = True) -> None:
        """Print and log a line, never as markup: it may quote models, tools and files."""
        text = printable(text)
        logger.log(level, "%s", text, extra=ON_SCREEN)
        if is_shown:
            self.console.print(Text(text, style=style), highlight=False, soft_wrap=True)

    def show_played(self, played: StoredEpisode) -> None:
        """Print and log one episode, turn by turn."""
        print_episode(played, self.console)
        as_text = Console(file=StringIO(), width=_LOG_WIDTH, emoji=False, force_jupyter=False)
        with as_text.capture() as captured:
            print_episode(played, as_text)
        logger.info("one episode:\n%s", captured.get().rstrip(), extra=ON_SCREEN)

    def started(self, recipe: Recipe, num_tasks: int) -> None:
        """Report the model, its device, the algorithm and the tasks."""
        algorithm, run, device = recipe.algorithm, recipe.run, choose_device(recipe.model.device)
        self.say(
            f"model {recipe.model.path} on {device}, tuning {recipe.policy.tuning}, engine "
            f"{recipe.engine.kind}; advantage {algorithm.advantage}, loss {algorithm.loss}"
        )
        self.say(
            f"{counted(num_tasks, 'training task')} in {recipe.tasks.train}; "
            f"{counted(run.num_steps, 'step')} of {counted(run.tasks_per_step, 'task')}, "
            f"{counted(recipe.rollout.group_size, 'episode')} a task"
        )

    def resumed(self, num_done: int, dropped: DroppedSteps | None = None) -> None:
        """Report where the run goes on, and where the figures of later steps were moved to."""
        begun = f"resumed after step {num_done}" if num_done else "started over"
        if dropped is None:
            self.say(begun)
        elif dropped.steps:
            first, last = dropped.steps[0] + 1, dropped.steps[-1] + 1
            steps = f"step {first} was" if first == last else f"steps {first} to {last} were"
            self.say(f"{begun}; {steps} not saved, the old figures are kept in {dropped.place}")
        else:
            self.say(f"{begun}; what was written later is kept in {dropped.place}")

    def stopping(self, why: str) -> None:
        self.say(f"{why}: finishing this step, then saving; a second Ctrl-C stops at once", "yellow")

    def playing(self, progress: Progress, num_episodes: int) -> AbstractAsyncContextManager[None]:
        """Show the progress of episodes while the block runs."""
        return shown(progress, num_episodes, self.console)

    def learned(self, step: int, figures: Figures, alarms: Sequence[Alarm], skipped: str) -> None:
        """Report a finished step in one line; an alarm is repeated every tenth step in a row."""
        line = step_line(step, self._num_steps, figures, self._num_epochs)
        self.say(line, is_shown=self.shows_steps)
        if skipped:
            words = f"step {step + 1}: no update: {skipped}"
            self.say(words, "yellow", level=logging.WARNING, is_shown=self.shows_skipped)
        for name in self._last_alarms.keys() - {alarm.name for alarm in alarms}:
            del self._last_alarms[name]
        self.warn(alarms)

    def warn(self, alarms: Sequence[Alarm]) -> None:
        for alarm in alarms:
            num_before = self._last_alarms.get(alarm.name, 0)
            self._last_alarms[alarm.name] = num_before + 1
            if num_before % 10 == 0 or alarm.level is AlarmLevel.HALT:
                self.say(f"  {alarm.name}: {alarm.message}", _STYLES[alarm.level], level=_LEVELS[alarm.level])

    def measured(self, what: str, report: EvaluationReport) -> None:
        overall = summarise(report.episodes)
        self.say(
            f"{what}: success {_with_interval(overall.success)} over {len(report.episodes)} episodes "
            f"in {report.seconds:.0f} s, {overall.repeating_share:.0%} repeat themselves",
            "bold",
            is_shown=self.shows_measurements,
        )

    def ended(self, summary: Mapping[str, Any]) -> None:
        """Called with the summary at the end; does nothing here, since `print_summary` has printed it."""


class Quiet(Screen):
    """Prints only alarms, evaluations and the summary."""

    shows_steps = False
    shows_skipped = False

    def playing(self, progress: Progress, num_episodes: int) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class Json(Quiet):
    """For programs: one JSON object per line on stdout; messages for people go to stderr."""

    shows_measurements = False

    def __init__(self, console: Console, run: RunConfig) -> None:
        super().__init__(Console(stderr=True, emoji=False), run)

    def learned(self, step: int, figures: Figures, alarms: Sequence[Alarm], skipped: str) -> None:
        super().learned(step, figures, alarms, skipped)
        raised = [{"name": alarm.name, "level": str(alarm.level), "value": alarm.value} for alarm in alarms]
        _print({"kind": "step", "step": step, "figures": figures, "alarms": raised, "skipped": skipped})

    def measured(self, what: str, report: EvaluationReport) -> None:
        super().measured(what, report)
        success = summarise(report.episodes).success
        _print({"kind": "measured", "what": what, "success": success.value, "interval": _ends(success)})

    def ended(self, summary: Mapping[str, Any]) -> None:
        _print({"kind": "summary", **summary})


def step_line(step: int, num_steps: int, figures: Figures, num_epochs: int | None = None) -> str:
    seconds = figures.get("time/rollout_seconds", 0.0), figures.get("time/update_seconds", 0.0)
    parts = [
        f"step {step + 1:>4}/{num_steps}",
        *([] if num_epochs is None else [epoch_part(figures, num_epochs)]),
        f"success {figures.get('success/rate', 0.0):.2f}",
        f"reward {figures.get('reward/mean', 0.0):+.3f}",
        *(f"{name} {figures[name]:.1e}" for name in ("kl/sampler", "kl/reference") if name in figures),
        f"entropy {figures.get('entropy/mean', 0.0):.3f}",
        f"grad {figures.get('gradient/norm', 0.0):.2f}",
        f"repeating {figures.get('episodes/repeating_share', 0.0):.2f}",
        f"flat {figures.get('groups/zero_variance_fraction', 0.0):.2f}",
        f"{seconds[0]:.1f} s played, {seconds[1]:.1f} s learned",
    ]
    return "  ".join(parts)


def epoch_part(figures: Figures, num_epochs: int) -> str:
    return f"epoch {figures.get('run/epoch', 0.0):.0f}/{num_epochs}"


def _print(event: Mapping[str, Any]) -> None:
    print(json.dumps(plain(event), allow_nan=False), flush=True)


def _ends(estimate: Estimate) -> list[float] | None:
    return None if estimate.low is None or estimate.high is None else [estimate.low, estimate.high]


def _with_interval(estimate: Estimate) -> str:
    ends = _ends(estimate)
    return f"{estimate.value:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")
