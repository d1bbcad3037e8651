"""Takes a command and a number, gives it run by that many processes of this machine, and how they ended.

torchrun and accelerate start them as well. Ours tells a run's first Ctrl-C, which ends it after the step,
from its second: theirs end all processes after half a minute, and know no exit code but success and failure.
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

LIFELINE = "TURNWISE_LIFELINE"
"""Names the pipe that ends when the launcher does, however it does."""

GRACE_SECONDS = 20.0
"""For which the others may end by themselves once one has failed, and again once they were told to."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_launched() -> bool:
    """Whether this process is one of several, by the variables that every launcher sets."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def launch(command: Sequence[str], num_processes: int, *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Run it and wait; gives the exit code of the first that failed, else of all of them.

    Signals go on to all. Where one process fails, the others are ended too.
    """
    import torch.distributed

    # kept here, where all find it: a port that is only looked for may be another's once it is used
    distributed: Any = torch.distributed
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    life, lifeline = os.pipe()
    processes: list[subprocess.Popen[bytes]] = []
    with _passing_on(processes):
        try:
            for number in range(num_processes):
                environment = _environment(number, num_processes, store.port) | {LIFELINE: str(life)}
                processes.append(
                    subprocess.Popen(
                        command,
                        env={**os.environ, **environment},
                        pass_fds=(life,),
                        # the terminal's Ctrl-C comes here alone, and goes on to each of them once
                        start_new_session=True,
                    )
                )
            return _wait(processes, grace_seconds)
        finally:
            _end(processes, grace_seconds)
            os.close(life)
            os.close(lifeline)


def _environment(number: int, count: int, port: int) -> dict[str, str]:
    found = {
        "RANK": str(number),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(number),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is the launcher's
    }
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    found["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", loopback)
    cores = str(max((os.cpu_count() or 1) // count, 1))
    found["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", cores)
    return found


@contextlib.contextmanager
def _passing_on(processes: "Sequence[subprocess.Popen[bytes]]") -> Iterator[None]:
    def pass_on(number: int, frame: object) -> None:
        for process in processes:
            _send(process, number)

    before = {number: signal.signal(number, pass_on) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(processes: "Sequence[subprocess.Popen[bytes]]", grace_seconds: float) -> int:
    """Until all have ended by themselves, or one has failed and the others had time to."""
    failed_at = None
    code = 0
    while any(process.poll() is None for process in processes):
        code = code or next((each for process in processes if (each := process.poll())), 0)
        if code and failed_at is None:
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > grace_seconds:
            break
        time.sleep(0.05)
    code = code or next((each for process in processes if (each := process.poll())), 0)
    return 128 - code if code < 0 else code


def _end(processes: "Sequence[subprocess.Popen[bytes]]", grace_seconds: float) -> None:
    """The second signal ends a run at once, with its servers; what is deaf to it is killed."""
    for _ in range(2):
        for process in processes:
            _send(process, signal.SIGTERM)
        time.sleep(0.2 if any(process.poll() is None for process in processes) else 0)
    until = time.monotonic() + grace_seconds
    for process in processes:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _send(process: "subprocess.Popen[bytes]", number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)


def watch_launcher(*, grace_seconds: float = GRACE_SECONDS) -> None:
    """In a process that was launched: should the launcher be killed, end as by a second Ctrl-C."""
    lifeline = os.environ.pop(LIFELINE, "")
    if not lifeline:
        return
    os.set_inheritable(int(lifeline), False)

    def watch() -> None:
        os.read(int(lifeline), 1)  # nothing is ever written: it returns once the other end is closed
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.5)
        time.sleep(grace_seconds)
        os._exit(1)

    threading.Thread(target=watch, name="turnwise-lifeline", daemon=True).start()
