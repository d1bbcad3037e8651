"""Compare the latency of a trivial snippet: warm sandbox, fresh interpreter, fresh bubblewrap."""

import argparse
import asyncio
import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from turnwise.system.sandbox import Kind, Sandbox, SandboxIsolation
from turnwise.system.sandbox.isolation import trial

GOAL_MS = 10.0
CODE = "1 + 1"


def fresh(command: list[str], num_runs: int) -> list[float]:
    seconds = []
    for _ in range(num_runs):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    return seconds


async def warm(kind: Kind, num_runs: int, num_workers: int, gap_seconds: float) -> list[float]:
    seconds = []
    async with Sandbox(num_workers=num_workers, walls=SandboxIsolation(kind, "")) as sandbox:
        await asyncio.gather(*(sandbox.run(CODE) for _ in range(2 * num_workers)))
        for _ in range(num_runs):
            started = time.perf_counter()
            execution = await sandbox.run(CODE)
            seconds.append(time.perf_counter() - started)
            assert execution.value == "2"
            await asyncio.sleep(gap_seconds)
    return seconds


async def throughput(kind: Kind, num_runs: int, num_workers: int) -> float:
    async with Sandbox(num_workers=num_workers, walls=SandboxIsolation(kind, "")) as sandbox:
        await asyncio.gather(*(sandbox.run(CODE) for _ in range(2 * num_workers)))
        started = time.perf_counter()
        await asyncio.gather(*(sandbox.run(CODE) for _ in range(num_runs)))
        return num_runs / (time.perf_counter() - started)


def finish(measure: Callable[[], Coroutine[Any, Any, list[float]]]) -> list[float]:
    return asyncio.run(measure())


def show(name: str, seconds: list[float]) -> None:
    ordered = sorted(1000 * value for value in seconds)
    tail = ordered[int(0.95 * (len(ordered) - 1))]
    print(f"{name:44} median {statistics.median(ordered):8.2f} ms   p95 {tail:8.2f} ms   n={len(ordered)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    runs: int = parser.parse_args().runs
    bare = [sys.executable, "-c", CODE]
    boxed = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", *bare]
    rows: list[tuple[str, Callable[[], list[float]]]] = [
        ("fresh python -c", lambda: fresh(bare, max(10, runs // 5))),
        ("fresh python -c with pandas", lambda: fresh([sys.executable, "-c", "import pandas"], 5)),
    ]
    for kind in (Kind.BUBBLEWRAP, Kind.LANDLOCK):
        if failure := trial(kind):
            print(f"{kind}: does not work here: {failure}")
            continue
        if kind is Kind.BUBBLEWRAP:
            rows.append(("fresh bwrap + python -c", lambda: fresh(boxed, max(10, runs // 5))))
        ways = (("back to back, 1 worker", 1, 0.0), ("2 workers", 2, 0.0), ("calls 20 ms apart", 2, 0.02))
        for words, workers, gap in ways:
            measure = functools.partial(warm, kind, runs, workers, gap)
            rows.append((f"sandbox, {kind}, {words}", functools.partial(finish, measure)))
    for name, take in rows:
        show(name, take())
    for kind in (Kind.BUBBLEWRAP, Kind.LANDLOCK):
        if not trial(kind):
            print(
                f"sandbox, {kind}, 2 workers, all at once:".ljust(44),
                f"{asyncio.run(throughput(kind, runs, 2)):.0f} executions/s",
            )
    print(f"goal: median under {GOAL_MS:g} ms")


if __name__ == "__main__":
    main()
