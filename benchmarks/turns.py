"""How long one of torch's operations takes beside a thread that never rests, by how soon threads take turns.

    python benchmarks/turns.py

torch lets go of the interpreter's lock with every operation and then waits for it, as long as the switch
interval says and Linux's timers are late by. Asynchronous runs have an update in one thread and all episodes
in another; `run/command.py` and `runtime/detached_thread.py` set both. It needs two idle cores: on busy ones
the other thread is slower to take the lock.
"""

import asyncio
import sys
import threading
import time

import torch

sys.path[:1] = []  # not this folder: its mcp.py must not stand in for the SDK's `mcp`

from turnwise.run.command import SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU  # noqa: E402
from turnwise.runtime.detached_thread import run_detached  # noqa: E402

PYTHONS_OWN = 5e-3
SECONDS = 2.0
"""Of measuring, each."""


def microseconds() -> float:
    """Of an operation that takes next to nothing."""
    small, count, started = torch.ones(4), 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        small + small
        count += 1
    return (time.perf_counter() - started) / count * 1e6


def main() -> None:
    torch.set_num_threads(1)
    print(f"alone: {microseconds():.1f} µs an operation")
    is_over = threading.Event()

    def never_rest() -> None:
        while not is_over.is_set():
            pass

    restless = threading.Thread(target=never_rest)
    restless.start()
    try:
        print("| threads take turns after | plain thread | as updates run |\n|---|---|---|")
        for seconds in (PYTHONS_OWN, SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU):
            sys.setswitchinterval(seconds)
            plain, prompt = microseconds(), asyncio.run(run_detached(microseconds))
            print(f"| {seconds * 1e6:,.0f} µs | {plain:,.0f} µs | {prompt:,.0f} µs |")
    finally:
        is_over.set()
        restless.join()


if __name__ == "__main__":
    main()
