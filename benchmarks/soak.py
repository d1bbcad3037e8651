"""Play thousands of episodes on nine failing servers, and check that no episode is lost or wrongly scored.

    python benchmarks/soak.py [--episodes 10000] [--minutes 60] [--seed 0] [--keep FOLDER]

Five servers of ours and four third-party ones (`bash tests/third_party/install.sh`) are killed, hang, flood,
answer late, twice or not at all, refuse, drop connections and run out of memory. A scripted model plays tasks
whose scores are known. Exit code 1 if an episode was lost, duplicated or wrongly scored, or if memory,
descriptors or processes grew.
"""

import sys
from pathlib import Path

from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve

sys.path.insert(0, str(Path(__file__).resolve().parent / "faults"))

import argparse
import asyncio
import contextlib
import gc
import itertools
import logging
import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from audit import OUTCOMES, Audit, audit
from journal import Journal
from plan import WRITERS
from rich.console import Console
from rich.table import Table
from stage import TURNWISE, Rates, missing, servers, tasks

from turnwise.config import Recipe
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.types import Task

NUM_PARALLEL = 32
LIMITS = EpisodeLimits(tokens_per_turn=2_000, tokens_per_episode=40_000, seconds=120)


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources of the process at a moment without episodes."""

    num_episodes: int
    seconds: float
    rss_mib: float
    num_descriptors: int
    num_processes: int
    num_tasks: int


@dataclass(frozen=True, slots=True)
class Soak:
    """The result of a soak."""

    audit: Audit
    samples: tuple[Sample, ...]
    num_lost: int
    """Attempts that the collectors counted as infrastructure faults."""
    num_dropped: int
    """Tasks given up after all retries; another task took their place."""
    seconds: float

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems; empty if there are none."""
        found = list(self.audit.problems)
        num_replayed = self.audit.num_attempts - self.audit.num_episodes
        if num_replayed < self.num_lost:
            found.append(f"{self.num_lost} faults were counted, {num_replayed} attempts did not finish")
        # The first point is the warm-up: caches fill and every server has started once.
        first, last = self.samples[1], self.samples[-1]
        if last.rss_mib > first.rss_mib * 1.1:
            found.append(f"memory grew from {first.rss_mib:.0f} to {last.rss_mib:.0f} MiB")
        for name in ("num_descriptors", "num_processes", "num_tasks"):
            most = max(getattr(sample, name) for sample in self.samples[: len(self.samples) // 2 + 1])
            if getattr(last, name) > most:
                found.append(f"{name} grew from at most {most} to {getattr(last, name)}")
        return tuple(found)


async def soak(
    folder: Path,
    num_episodes: int,
    *,
    seed: int = 0,
    max_seconds: float = math.inf,
    num_points: int = 10,
    turnwise: str = TURNWISE,
) -> Soak:
    """Play this number of episodes and audit them. `turnwise`: the command that starts our servers."""
    pairs = tasks(num_own=min(240, max(60, num_episodes // 3)))
    distinct = [task for task, _ in pairs]
    rates = Rates.over(num_episodes)
    with servers(folder, seed, rates, turnwise) as mcp, contextlib.closing(Journal(folder)) as journal:
        recipe = Recipe.model_validate({"tools": {"mcp": mcp}, "engine": {"kind": "scripted"}})
        async with open_workbench(resolve(RunRequest(recipe), recipe), distinct) as bench:
            started = time.monotonic()
            play = _Play(bench, journal, folder, _rounds(distinct))
            samples = []
            for number in range(1, num_points + 1):
                until = started + max_seconds * number / num_points
                await play.until(num_episodes * number // num_points, until)
                samples.append(await _sample(play.num_done, started))
                print(samples[-1], f"{play.num_lost} lost, {play.num_dropped} dropped", flush=True)
            seconds = time.monotonic() - started
    scores = {task.id: score for task, score in pairs}
    found = audit(folder, play.num_done, scores, WRITERS)
    return Soak(found, tuple(samples), play.num_lost, play.num_dropped, seconds)


class _Play:
    """Plays episodes in collections like a run's steps, and writes them to disk."""

    def __init__(self, bench: Workbench, journal: Journal, folder: Path, source: Iterator[Task]) -> None:
        self._bench = bench
        self._lease = journal.around(bench.lease)
        self._path = folder / "trajectories.jsonl"
        self._source = source
        self.num_done = self.num_lost = self.num_dropped = 0

    async def until(self, num_episodes: int, moment: float) -> None:
        """Continue to this number of episodes, or to the first end of a collection after this time."""
        playing = player(self._bench.engine, self._bench.chat, LIMITS)
        plan = CollectionPlan(group_size=1, num_parallel_episodes=NUM_PARALLEL, num_retries=4)
        with TrajectoryWriter(self._path) as writer:
            while self.num_done < num_episodes and time.monotonic() < moment:
                num_wanted = min(200, num_episodes - self.num_done)
                collector = Collector(playing, self._lease, self._bench.rewards, plan)
                async with collector.collecting(self._source, num_wanted) as groups:
                    async for group in groups:
                        writer.write(StoredEpisode(group.trajectories[0], group.rewards[0]))
                self.num_done += num_wanted
                self.num_lost += collector.progress.num_lost
                self.num_dropped += collector.progress.num_groups_dropped


def _rounds(distinct: list[Task]) -> Iterator[Task]:
    """Repeat the tasks, with new ids in every round."""
    for number in itertools.count():
        yield from (replace(task, id=f"{task.id}#{number}") for task in distinct)


async def _sample(num_episodes: int, started: float) -> Sample:
    """Sample the resources once replaced processes have ended."""
    seen = [(-1, -1)]
    for _ in range(80):
        gc.collect()
        seen.append((len(_descendants()), _num_descriptors()))
        if len(seen) > 4 and len(set(seen[-4:])) == 1:
            break
        await asyncio.sleep(0.25)
    return Sample(
        num_episodes=num_episodes,
        seconds=time.monotonic() - started,
        rss_mib=_rss_mib(),
        num_descriptors=seen[-1][1],
        num_processes=seen[-1][0],
        num_tasks=len(asyncio.all_tasks()),
    )


def _num_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _descendants() -> set[int]:
    """All descendants of this process, zombies included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text()
                children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def tables(done: Soak) -> tuple[Table, Table]:
    faults = Table("fault", "injected", *OUTCOMES, title="How the call that met a fault ended")
    for fault, ended in sorted(done.audit.faults.items()):
        faults.add_row(fault, str(ended.total()), *(str(ended[outcome]) for outcome in OUTCOMES))
    flat = Table(
        "episodes", "minutes", "RSS, MiB", "descriptors", "processes", "tasks", title="Between collections"
    )
    for sample in done.samples:
        flat.add_row(
            f"{sample.num_episodes:,}",
            f"{sample.seconds / 60:.1f}",
            f"{sample.rss_mib:.0f}",
            *(str(count) for count in (sample.num_descriptors, sample.num_processes, sample.num_tasks)),
        )
    return faults, flat


def report(done: Soak) -> None:
    console = Console(width=140)
    for table in tables(done):
        console.print(table)
    found = done.audit
    num_faults = sum(ended.total() for ended in found.faults.values())
    print(
        f"{found.num_episodes:,} episodes, {found.num_calls:,} calls, {num_faults:,} faults in "
        f"{done.seconds / 60:.1f} minutes ({found.num_episodes / done.seconds:.1f} episodes/s)"
    )
    print(
        f"{found.num_attempts - found.num_episodes:,} attempts were lost to infrastructure and played again; "
        f"{done.num_dropped} tasks were given up after all retries and replaced by others"
    )
    for problem in done.problems[:40]:
        print(f"BAD {problem}")
    print("nothing lost, doubled or mis-scored" if not done.problems else f"{len(done.problems)} problems")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time and audit")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    parser.add_argument("--keep", type=Path, help="keep all records in this folder, which must not exist")
    options = parser.parse_args()
    if words := missing():
        parser.error(words)
    logging.getLogger("turnwise").setLevel(
        logging.ERROR
    )  # every fault logs a warning, and there are thousands
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=options.keep is None)
        done = asyncio.run(
            soak(folder, options.episodes, seed=options.seed, max_seconds=60 * options.minutes)
        )
    report(done)
    sys.exit(bool(done.problems))


if __name__ == "__main__":
    main()
