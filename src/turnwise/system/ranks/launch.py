"""The launcher: run a command in several processes of this machine and return their exit code.

torchrun and accelerate work as well. Unlike them, this launcher distinguishes the first Ctrl-C, which ends a
run after its step, from the second. They kill all processes after half a minute and report no exit codes but
success and failure.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from turnwise.system.interruption import is_hang_up_ignored

LIFELINE = "TURNWISE_LIFELINE"
"""The variable with the number of a pipe that closes when the launcher ends, even if it is killed."""

GRACE_SECONDS = 20.0
"""Time for the other processes to end by themselves after one has failed, and again after SIGTERM."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_launched() -> bool:
    """Whether a launcher started this process, by the variables that every launcher sets."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def launch(command: Sequence[str], num_processes: int, *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Run the command in all processes and wait; returns the exit code of the first that failed, else 0.

    Signals are forwarded to all processes. If one fails, the others are ended too.
    """
    import torch.distributed

    # opened here: a free port that is only looked up could be taken by another process before it is used
    distributed: Any = torch.distributed
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    read_end, write_end = os.pipe()
    processes: list[subprocess.Popen[bytes]] = []
    with _forwarded_signals(processes):
        try:
            for number in range(num_processes):
                environment = _environment(number, num_processes, store.port) | {LIFELINE: str(read_end)}
                processes.append(
                    subprocess.Popen(
                        command,
                        env={**os.environ, **environment},
                        pass_fds=(read_end,),
                        # the terminal sends Ctrl-C to the launcher alone, which forwards it once
                        start_new_session=True,
                    )
                )
            return _wait(processes, grace_seconds)
        finally:
            _end(processes, grace_seconds)
            os.close(read_end)
            os.close(write_end)


def _environment(number: int, count: int, port: int) -> dict[str, str]:
    variables = {
        "RANK": str(number),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(number),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the launcher has the store
    }
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    variables["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", loopback)
    cores = str(max((os.cpu_count() or 1) // count, 1))
    variables["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", cores)
    return variables


@contextlib.contextmanager
def _forwarded_signals(processes: "Sequence[subprocess.Popen[bytes]]") -> Iterator[None]:
    def forward(number: int, frame: object) -> None:
        for process in processes:
            _send(process, number)

    ignored = {signal.SIGHUP} if is_hang_up_ignored() else set()
    previous = {number: signal.signal(number, forward) for number in _SIGNALS if number not in ignored}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _wait(processes: "Sequence[subprocess.Popen[bytes]]", grace_seconds: float) -> int:
    """Wait until all have ended, or until one has failed and the grace period is over."""
    failed_at = None
    code = 0
    while any(process.poll() is None for process in processes):
        code = code or _first_failure(processes)
        if code and failed_at is None:
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > grace_seconds:
            break
        time.sleep(0.05)
    code = code or _first_failure(processes)
    return 128 - code if code < 0 else code


def _first_failure(processes: "Sequence[subprocess.Popen[bytes]]") -> int:
    return next((code for process in processes if (code := process.poll())), 0)


def _end(processes: "Sequence[subprocess.Popen[bytes]]", grace_seconds: float) -> None:
    """End all processes: the second SIGTERM stops a run and its servers at once; then they are killed."""
    for _ in range(2):
        for process in processes:
            _send(process, signal.SIGTERM)
        time.sleep(0.2 if any(process.poll() is None for process in processes) else 0)
    deadline = time.monotonic() + grace_seconds
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _send(process: "subprocess.Popen[bytes]", number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)


def watch_launcher(*, grace_seconds: float = GRACE_SECONDS) -> None:
    """In a launched process, end as after a second Ctrl-C if the launcher is killed."""
    lifeline = os.environ.pop(LIFELINE, "")
    if not lifeline:
        return
    os.set_inheritable(int(lifeline), False)

    def watch() -> None:
        os.read(int(lifeline), 1)  # returns when the launcher's end is closed; nothing is ever written
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.5)
        time.sleep(grace_seconds)
        os._exit(1)

    threading.Thread(target=watch, name="turnwise-lifeline", daemon=True).start()
