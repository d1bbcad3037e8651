"""The live panel of a run on a terminal: progress, success, health and what it waits for."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turnwise.config import RunConfig
from turnwise.records.dropped_steps import DroppedSteps
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.live_panel import figures_of
from turnwise.run.health.health import Alarm, AlarmLevel
from turnwise.run.screen.screen import Figures, Screen, epoch_part
from turnwise.system.terminal import duration, printable

_REFRESH_SECONDS = 0.25
_BARS = "▁▂▃▄▅▆▇█"
_NUM_SHOWN = 48
"""The most steps in a sparkline."""
_NUM_RECENT = 10
"""The number of last steps that the remaining time is estimated from."""


class Panel(Screen):
    """A frame at the bottom of the terminal; messages scroll above it."""

    shows_steps = False

    def __init__(self, console: Console, run: RunConfig) -> None:
        super().__init__(console, run)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._steps: list[Figures] = []
        self._ended_at: list[float] = []
        self._num_done = 0
        self._alarms: Sequence[Alarm] = ()
        self._playing: list[tuple[Progress, int]] = []
        """Collections under way, with their numbers of episodes; several if batches are collected ahead."""

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        self._ended_at = [time.monotonic()]
        with self._live:
            self._refresh()
            yield

    def resumed(self, num_done: int, dropped: DroppedSteps | None = None) -> None:
        super().resumed(num_done, dropped)
        self._num_done = num_done

    def playing(self, progress: Progress, num_episodes: int) -> AbstractAsyncContextManager[None]:
        return self._following(progress, num_episodes)

    @contextlib.asynccontextmanager
    async def _following(self, progress: Progress, num_episodes: int) -> AsyncIterator[None]:
        async def follow() -> None:
            while True:
                self._refresh()
                await asyncio.sleep(_REFRESH_SECONDS)

        if not self._steps:  # loading and the first evaluation are not part of a step
            self._ended_at = [time.monotonic()]
        shown = (progress, num_episodes)
        self._playing.append(shown)
        following = asyncio.create_task(follow(), name="panel")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            self._playing = [entry for entry in self._playing if entry is not shown]

    def learned(self, step: int, figures: Figures, alarms: Sequence[Alarm], skipped: str) -> None:
        self._steps.append(figures)
        self._ended_at.append(time.monotonic())
        self._num_done = step + 1
        self._alarms = alarms
        super().learned(step, figures, alarms, skipped)
        self._refresh()

    def _refresh(self) -> None:
        self._live.update(self.frame(), refresh=True)

    def frame(self) -> RenderableType:
        """Render the panel."""
        rows = Table.grid(padding=(0, 2))
        rows.add_row("success", *self._line("success/rate", low=0.0, high=1.0))
        rows.add_row("reward", *self._line("reward/mean"))
        last = self._steps[-1] if self._steps else {}
        rows.add_row("a step", Text(_phases(last)))
        rows.add_row("health", self._health())
        rows.add_row("tools", Text(_tools(last)))
        for progress, num_episodes in self._playing:
            figures = figures_of(progress, num_episodes)
            rows.add_row("playing", Text("  ".join(f"{name} {value}" for name, value in figures.items())))
        bar = ProgressBar(total=self._num_steps, completed=self._num_done, width=_NUM_SHOWN)
        head = Table.grid(padding=(0, 2))
        epoch = f"  {epoch_part(last, self._num_epochs)}" if self._num_epochs and last else ""
        head.add_row(f"step {self._num_done}/{self._num_steps}{epoch}", bar, self._time_left())
        return Frame(Group(head, rows), title="turnwise", title_align="left")

    def _line(self, name: str, low: float | None = None, high: float | None = None) -> list[Text]:
        values = [step[name] for step in self._steps if name in step]
        if not values:
            return [Text("-")]
        return [Text(f"{sparkline(values[-_NUM_SHOWN:], low, high)} {values[-1]:.3f}")]

    def _health(self) -> Text:
        if not self._steps:
            return Text("-")
        if not self._alarms:
            return Text("good", style="green")
        is_halt = any(alarm.level is AlarmLevel.HALT for alarm in self._alarms)
        reasons = ", ".join(
            f"{alarm.name} {alarm.value:.3g} (limit {alarm.threshold:.3g})" for alarm in self._alarms
        )
        word, style = ("halt", "red") if is_halt else ("warning", "yellow")
        return Text(printable(f"{word}: {reasons}"), style=style)

    def _time_left(self) -> str:
        recent = self._ended_at[-_NUM_RECENT - 1 :]
        if len(recent) < 2:
            return ""
        seconds = (recent[-1] - recent[0]) / (len(recent) - 1) * (self._num_steps - self._num_done)
        return f"{duration(seconds)} left"


def _phases(figures: Figures) -> str:
    phases = {"rollout": "played", "update": "learned", "publish": "published"}
    times = {words: figures.get(f"time/{phase}_seconds") for phase, words in phases.items()}
    return (
        ", ".join(f"{seconds:.1f} s {words}" for words, seconds in times.items() if seconds is not None)
        or "-"
    )


def _tools(figures: Figures) -> str:
    if "tools/calls" not in figures:
        return "-"
    return (
        f"{figures['tools/calls']:.1f} calls an episode, {figures['tools/error_rate']:.0%} failed, "
        f"{figures['tools/seconds'] * 1000:.0f} ms each, "
        f"{figures.get('episodes/repeating_share', 0.0):.0%} of the episodes repeat themselves"
    )


def sparkline(values: Sequence[float], low: float | None = None, high: float | None = None) -> str:
    """One bar per value, scaled from the lowest to the highest value unless `low` and `high` are given."""
    bottom = min(values) if low is None else low
    reach = (max(values) if high is None else high) - bottom
    shares = [(value - bottom) / reach if reach else 0.5 for value in values]
    return "".join(_BARS[min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)] for share in shares)
