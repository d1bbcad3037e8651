"""Measure a torch operation next to a thread that never sleeps, by thread switch interval.

    python benchmarks/turns.py

torch releases the interpreter lock in every operation and then waits for it, up to the switch interval plus
the timer slack of Linux. Asynchronous runs have an update in one thread and all episodes in another;
`run/command.py` and `system/threads.py` set both values. The benchmark needs two idle cores: on busy
cores the other thread takes the lock more slowly.
"""

import asyncio
import sys
import threading
import time

import torch

from turnwise.run.command import SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU
from turnwise.system.threads import run_detached

PYTHONS_OWN = 5e-3
SECONDS = 2.0
"""Seconds of one measurement."""


def microseconds() -> float:
    """Microseconds of a trivial operation."""
    small, count, started = torch.ones(4), 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        small + small
        count += 1
    return (time.perf_counter() - started) / count * 1e6


def main() -> None:
    torch.set_num_threads(1)
    print(f"alone: {microseconds():.1f} µs per operation")
    is_over = threading.Event()

    def never_rest() -> None:
        while not is_over.is_set():
            pass

    restless = threading.Thread(target=never_rest)
    restless.start()
    try:
        print("| switch interval | plain thread | update thread |\n|---|---|---|")
        for seconds in (PYTHONS_OWN, SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU):
            sys.setswitchinterval(seconds)
            plain, prompt = microseconds(), asyncio.run(run_detached(microseconds))
            print(f"| {seconds * 1e6:,.0f} µs | {plain:,.0f} µs | {prompt:,.0f} µs |")
    finally:
        is_over.set()
        restless.join()


if __name__ == "__main__":
    main()
