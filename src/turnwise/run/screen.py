"""Says on the terminal how a run goes: a line a step, alarms with their advice, figures before and after."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from rich.console import Console
from rich.text import Text

from turnwise.config import Recipe
from turnwise.diagnostics.health import Alarm, Level
from turnwise.evaluate.report import Report
from turnwise.evaluate.statistics import Estimate
from turnwise.evaluate.summary import summarise
from turnwise.rollout.collector import Progress
from turnwise.rollout.display import printable
from turnwise.rollout.live import shown

_STYLES = {Level.WARNING: "yellow", Level.HALT: "red"}


class Screen:
    """Plain lines, so that a log file reads as the terminal did."""

    def __init__(self, console: Console, recipe: Recipe) -> None:
        self._console = console
        self._num_steps = recipe.run.num_steps
        self._episodes_per_step = recipe.run.tasks_per_step * recipe.rollout.group_size
        self._last_alarms: dict[str, int] = {}

    def say(self, text: str, style: str = "") -> None:
        """What models, tools and files wrote is text, never markup."""
        self._console.print(Text(printable(text), style=style), highlight=False, soft_wrap=True)

    def stopping(self) -> None:
        self.say("finishing this step, then saving; Ctrl-C again stops at once", "yellow")

    def collecting(self, progress: Progress) -> AbstractAsyncContextManager[None]:
        """Show how a step's episodes come along, while the block runs."""
        return shown(progress, self._episodes_per_step, self._console)

    def learned(self, step: int, figures: Mapping[str, float], alarms: Sequence[Alarm], skipped: str) -> None:
        """A step is done: one line, and each alarm when it first fires and every tenth time in a row."""
        seconds = figures.get("time/rollout_seconds", 0.0), figures.get("time/update_seconds", 0.0)
        parts = [
            f"step {step + 1:>4}/{self._num_steps}",
            f"success {figures.get('success/rate', 0.0):.2f}",
            f"reward {figures.get('reward/mean', 0.0):+.3f}",
            f"kl {figures.get('kl/sampler', 0.0):.1e}",
            f"entropy {figures.get('entropy/mean', 0.0):.3f}",
            f"grad {figures.get('gradient/norm', 0.0):.2f}",
            f"flat {figures.get('groups/zero_variance_fraction', 0.0):.2f}",
            f"{seconds[0]:.1f} s played, {seconds[1]:.1f} s learned",
        ]
        self.say("  ".join(parts))
        if skipped:
            self.say(f"  no update: {skipped}", "yellow")
        for alarm in alarms:
            num_before = self._last_alarms.get(alarm.name, 0)
            self._last_alarms[alarm.name] = num_before + 1
            if num_before % 10 == 0 or alarm.level is Level.HALT:
                self.say(f"  {alarm.message}", _STYLES[alarm.level])
        for name in self._last_alarms.keys() - {alarm.name for alarm in alarms}:
            del self._last_alarms[name]

    def measured(self, what: str, report: Report) -> None:
        success = summarise(report.episodes).success
        self.say(
            f"{what}: success {_with_interval(success)} over {len(report.episodes)} episodes "
            f"in {report.seconds:.0f} s",
            "bold",
        )

    def resumed(self, next_step: int) -> None:
        self.say(f"going on after step {next_step}")


def _with_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
