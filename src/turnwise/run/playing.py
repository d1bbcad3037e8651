"""Play tasks with real tools, write the trajectories to disk, and report the results."""

import asyncio
import contextlib
import functools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from statistics import fmean

from rich.console import Console

from turnwise.config.sampling import check_temperature
from turnwise.engines import engine_class
from turnwise.rewards import succeeded
from turnwise.rollout import live_panel
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.collector import Collector
from turnwise.rollout.display import print_episode
from turnwise.rollout.measure.report import (
    EvaluationReport,
    new_report,
    require_free_report,
    trajectories_of,
    write_new_report,
)
from turnwise.rollout.measure.summary import EvaluatedEpisode, record
from turnwise.rollout.players.endpoint import endpoint_player
from turnwise.rollout.rank_exchange import gather_from_ranks, rank_share, total_progress
from turnwise.rollout.repetition import repeats_itself
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.setup.agent import Agent
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.setup.requirements import require_playable
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.environment import environment
from turnwise.system.ranks import ALONE, Ranks, is_first
from turnwise.system.terminal import open_console
from turnwise.tasks.selection import across_families
from turnwise.types import Fault, Group, Task

logger = logging.getLogger(__name__)

Shown = Callable[[Progress, int], AbstractAsyncContextManager[None]]
"""`shown(progress, num_episodes)`: displays the progress while the block runs."""


def on_stderr(progress: Progress, num_episodes: int) -> AbstractAsyncContextManager[None]:
    return live_panel.shown(progress, num_episodes, open_console(stderr=True))


async def play_groups(run: ResolvedRun, *, num_tasks: int, out: Path, num_shown: int) -> None:
    """Play one group per training task; write all episodes to `out` and print the first `num_shown`."""
    console = Console(emoji=False)
    started = time.perf_counter()
    num_written = 0
    with contextlib.ExitStack() as exits:

        @functools.cache
        def writer() -> TrajectoryWriter:  # opened by the first episode: a failed start leaves no file
            return exits.enter_context(TrajectoryWriter(out))

        def keep(episode: StoredEpisode) -> None:
            nonlocal num_written
            writer().write(episode)
            if num_written < num_shown:
                print_episode(episode, console)
            num_written += 1

        try:
            played, progress = await play_episodes(run, num_tasks=num_tasks, on_episode=keep)
        except asyncio.CancelledError:
            logger.warning("stopped: %d episodes are in %s", num_written, out)
            raise
    for line in _played_lines(played, progress, time.perf_counter() - started):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(f"trajectories: {out}", highlight=False, markup=False, soft_wrap=True)


async def play_episodes(
    run: ResolvedRun,
    *,
    num_tasks: int | None = None,
    shown: Shown = on_stderr,
    on_episode: Callable[[StoredEpisode], None] = lambda episode: None,
) -> tuple[list[StoredEpisode], Progress]:
    """Play one group per training task, or for the first `num_tasks`, and return all episodes."""
    tasks = run.tasks_of("train")[:num_tasks]
    run.announce()
    played: list[StoredEpisode] = []
    async with open_workbench(run, tasks) as bench:
        require_playable(bench, tasks)
        collector = bench.collector()
        num_episodes = len(tasks) * run.recipe.rollout.group_size
        async with (
            shown(collector.progress, num_episodes),
            collector.collecting(tasks, len(tasks)) as groups,
        ):
            async for group in groups:
                for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
                    played.append(StoredEpisode(trajectory, reward))
                    on_episode(played[-1])
    return played, collector.progress


def _played_lines(played: Sequence[StoredEpisode], progress: Progress, seconds: float) -> Iterator[str]:
    """The summary of a collection, as lines of text."""
    yield f"{progress.num_finished} episodes of {progress.num_groups} tasks in {seconds:.1f} s"
    if played:
        success = fmean(succeeded(episode.trajectory, episode.reward) for episode in played)
        reward = fmean(episode.reward.total for episode in played)
        yield f"success {success:.3f} by the tasks' ground truth, mean reward {reward:+.3f}"
        num_repeating = sum(repeats_itself(episode.trajectory) for episode in played)
        if num_repeating:
            yield f"{num_repeating} of {len(played)} episodes repeat themselves"
    stops = Counter(episode.trajectory.stop.value for episode in played)
    yield f"stops: {', '.join(f'{stop} {num}' for stop, num in stops.most_common()) or 'none'}"
    faults = Counter(result.fault for episode in played for _, result in episode.trajectory.calls)
    yield (
        f"tool calls: {faults.total()}, of which {faults[Fault.MODEL]} failed because of the model and "
        f"{faults[Fault.INFRA]} because of infrastructure"
    )
    yield (
        f"lost to infrastructure: {progress.num_lost} episodes, {progress.num_groups_dropped} groups dropped"
    )


async def evaluate_agent(
    agent: Agent,
    *,
    out: Path | None = None,
    num_samples: int = 4,
    temperature: float = 1.0,
    endpoint: str = "",
    endpoint_model: str = "",
    prices: tuple[float, float] = (0.0, 0.0),
    shown: Shown = on_stderr,
) -> tuple[EvaluationReport, Path]:
    """Play the test tasks `num_samples` times each; write the figures, and the episodes next to them.

    Without `out` they are written to a new folder in the folder of runs. The path is `out`, or a numbered one
    if a file appeared there meanwhile.
    """
    check_temperature(temperature)
    run, recipe = agent.run, agent.run.recipe
    tasks = across_families(run.tasks_of("test"), recipe.evaluation.num_tasks)
    run.announce()
    model_name = "demonstrations" if recipe.engine.kind == "scripted" else agent.name or recipe.model.path
    with _report_file(out, recipe.run.folder) as path:
        async with (
            open_workbench(run, tasks, with_engine=not endpoint, model=agent.model) as bench,
            _collector(bench, num_samples, temperature, endpoint, endpoint_model) as collector,
        ):
            require_playable(bench, tasks, has_own_tokens=not endpoint)
            report = await measure(
                collector,
                tasks,
                out=path,
                model=endpoint_model or model_name,
                num_samples=num_samples,
                temperature=temperature,
                prices=prices,
                shown=shown,
                on_interrupt=lambda partial: _keep_partial(partial, path),
            )
        return report, write_new_report(report, path)


@contextlib.contextmanager
def _report_file(out: Path | None, runs: Path) -> Iterator[Path]:
    """Yield the file to write: a new one. If the block fails before anything is played, no folder is left."""
    if out is not None:
        require_free_report(out)
        yield out
        return
    path = new_report(runs)
    try:
        yield path
    except BaseException:
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
        raise


def _keep_partial(partial: EvaluationReport, out: Path) -> None:
    num_played = partial.num_tasks_asked - partial.num_tasks_missing
    place = write_new_report(partial, out)
    logger.warning("stopped after %d of %d tasks: %s", num_played, partial.num_tasks_asked, place)


async def measure(
    collector: Collector,
    tasks: Sequence[Task],
    *,
    out: Path,
    model: str,
    num_samples: int,
    temperature: float,
    prices: tuple[float, float] = (0.0, 0.0),
    shown: Shown = on_stderr,
    on_group: Callable[[Group], None] = lambda group: None,
    on_interrupt: Callable[[EvaluationReport], None] = lambda partial: None,
    ranks: Ranks = ALONE,
) -> EvaluationReport:
    """Play one group of `num_samples` episodes per task; `model` is the name of the model in the report.

    Every rank plays its share and returns the full report; the first rank writes the episodes next to `out`.
    `on_interrupt` gets the report of the tasks that were played before it was cancelled or failed, if any.
    """
    started = time.perf_counter()
    episodes: list[EvaluatedEpisode] = []
    trajectories = trajectories_of(out)
    own = [tasks[place] for place in rank_share(ranks, len(tasks))]
    with contextlib.ExitStack() as exits:
        writer: TrajectoryWriter | None = None
        if is_first(ranks):
            trajectories.unlink(missing_ok=True)  # left by an interrupted or an older evaluation
            writer = exits.enter_context(TrajectoryWriter(trajectories))

        def keep(group: Group) -> None:
            on_group(group)
            for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
                if writer is not None:
                    writer.write(StoredEpisode(trajectory, reward))
                episodes.append(record(trajectory, is_success=succeeded(trajectory, reward)))

        async def play() -> tuple[list[Group], Progress]:
            played = []
            async with (
                shown(collector.progress, len(own) * num_samples),
                collector.collecting(own, len(own)) as groups,
            ):
                async for group in groups:
                    keep(group)
                    played.append(group)
            return played, collector.progress

        def report_so_far(progress: Progress) -> EvaluationReport:
            return EvaluationReport(
                model=model,
                num_samples=num_samples,
                temperature=temperature,
                seconds=time.perf_counter() - started,
                num_tasks_asked=len(tasks),
                num_lost=progress.num_lost,
                attempts=progress.attempts,
                episodes=tuple(sorted(episodes, key=lambda episode: episode.task_id)),
                prices=prices,
            )

        try:
            shares = await gather_from_ranks(ranks, play(), "steps")
        except BaseException:  # what was played is not lost by Ctrl-C or a fault
            if episodes:
                on_interrupt(report_so_far(collector.progress))
            raise
        for number, (groups, _) in enumerate(shares):
            if number != ranks.number:
                for group in groups:
                    keep(group)
    return report_so_far(total_progress([progress for _, progress in shares]))


@contextlib.asynccontextmanager
async def _collector(
    bench: Workbench, num_samples: int, temperature: float, endpoint: str, model: str
) -> AsyncIterator[Collector]:
    if not endpoint:
        yield bench.collector(group_size=num_samples, temperature=temperature, is_evaluation=True)
        return
    remote = engine_class("openai")(endpoint, model, key=environment().get("OPENAI_API_KEY", "").strip())
    try:
        playing = endpoint_player(
            remote,
            bench.run.limits(),
            temperature,
            bench.recipe.model.system_prompt,
            bench.user_model,
            bench.run.rules(is_evaluation=True),
        )
        yield Collector(playing, bench.lease, bench.rewards, bench.run.collection(num_samples))
    finally:
        await remote.close()
