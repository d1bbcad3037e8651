"""Display the progress of a collection: a live panel on a terminal, else a line every ten seconds."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from rich.console import Console
from rich.live import Live
from rich.table import Table

from turnwise.rollout.collection_counts import Progress

_REFRESH_SECONDS = 0.25
_LINE_SECONDS = 10.0


@contextlib.asynccontextmanager
async def shown(progress: Progress, num_episodes: int, console: Console) -> AsyncIterator[None]:
    """Display the progress while the block runs."""
    follow = _panel if console.is_terminal else _lines
    display = asyncio.create_task(follow(progress, num_episodes, console), name="display")
    try:
        yield
    finally:
        display.cancel()
        await asyncio.wait([display])


async def _panel(progress: Progress, num_episodes: int, console: Console) -> None:
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            live.update(_table(progress, num_episodes), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


async def _lines(progress: Progress, num_episodes: int, console: Console) -> None:
    while True:
        await asyncio.sleep(_LINE_SECONDS)
        figures = "  ".join(f"{name} {value}" for name, value in figures_of(progress, num_episodes).items())
        console.print(figures, highlight=False, markup=False, soft_wrap=True)


def _table(progress: Progress, num_episodes: int) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in figures_of(progress, num_episodes).items():
        table.add_row(name, value)
    return table


def figures_of(progress: Progress, num_episodes: int) -> dict[str, str]:
    """The progress as printable text by name."""
    seconds = max(time.perf_counter() - progress.started_at, 1e-9)
    done = progress.num_finished
    num_whole = done - progress.num_inside_plans
    on_tools, on_servers = progress.num_waiting_on_tools, progress.num_waiting_on_servers
    on_model = progress.num_in_flight - on_tools - on_servers
    # groups without signal are replaced, so more episodes may be played than requested
    total = max(num_episodes, done + progress.num_in_flight)
    figures = {
        "episodes": f"{done} of {total}, {progress.num_in_flight} in flight",
        "waiting on": f"model {on_model}, tools {on_tools}, servers {on_servers}",
        "success": f"{progress.num_successes / num_whole:.0%}" if num_whole else "-",
        "tokens/s": f"{progress.num_tokens / seconds:,.0f}",
        "calls/s": f"{progress.num_calls / seconds:,.1f}",
    }
    if progress.num_lost:
        figures["lost"] = (
            f"{progress.num_lost} to infrastructure, {progress.num_groups_dropped} groups dropped"
        )
    return figures
