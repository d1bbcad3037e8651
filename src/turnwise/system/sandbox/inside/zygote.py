"""The zygote: forks a confined child for each execution that the host orders, and reports how it ended.

The child is forked and confined before its code arrives, so that the time to a result is the code's own.
The zygote itself never reads a byte that a child wrote: code goes in and results come out through
descriptors that the host made and that only pass through here.
"""

import builtins
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from . import seccomp, snippet
from .confine import confine
from .kernel import NEWPID, PR_SET_PDEATHSIG, prctl, setns, unshare
from .memory import ProcessMemory, bytes_together, memory_of
from .report import Reason, ReportBuffer
from .settings import Settings

_TICK_SECONDS = 0.05
_NUM_HAND_OVERS = 3


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    pidfd: int
    channel: socket.socket


@dataclass(frozen=True, slots=True)
class _Packages:
    """Finds the named packages, and no others that are installed next to them.

    With all of site-packages importable, pandas would load pyarrow, whose allocator starts a thread: a zygote
    with threads cannot fork safely.
    """

    names: tuple[str, ...]
    path: tuple[str, ...]

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self.path) if path is None and name in self.names else None


def main() -> None:
    """Serve until the host closes the socket on standard input."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    settings = _read_settings(control)
    found = _warm_up(settings)
    own_pids = -1 if settings.shares_host else os.open("/proc/self/ns/pid", os.O_RDONLY)
    kept = _open_directories(settings) if settings.shares_host else frozenset()
    control.send(json.dumps({"packages": found}).encode())
    base = memory_of("self")
    buffer = ReportBuffer()
    while _serve_one(settings, control, own_pids, base, kept, buffer):
        pass


def _serve_one(
    settings: Settings,
    control: socket.socket,
    own_pids: int,
    base: ProcessMemory,
    kept: frozenset[int],
    buffer: ReportBuffer,
) -> bool:
    """Run one execution; returns False if the host has closed the socket.

    The next child inherits every live frame, so the data of one execution is local to this call.
    """
    child = _spawn(settings, own_pids, base, kept)
    fds = _next_run(control)
    if not fds:
        return False  # the child dies with us
    for _ in range(_NUM_HAND_OVERS):
        if _hand_over(child, fds):
            break
        os.waitpid(child.pid, 0)  # killed while it waited, perhaps by the OOM killer: it had no code yet
        os.close(child.pidfd)
        child = _spawn(settings, own_pids, base, kept)
    else:
        sys.exit("children die before they take code")
    for fd in fds:
        os.close(fd)
    reason = _watch(settings, control, child, base)
    if reason is not Reason.NONE:
        # it is the first process of its pid namespace: the kernel kills all others with it
        os.kill(child.pid, signal.SIGKILL)
    buffer.reap(child.pid)
    os.close(child.pidfd)
    buffer.send(control, reason)
    return True


def _read_settings(control: socket.socket) -> Settings:
    raw: dict[str, Any] = json.loads(control.recv(1 << 16))
    # JSON has no tuples
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()
    }
    return Settings(**fields)


def _warm_up(settings: Settings) -> list[str]:
    sys.meta_path.append(_Packages(settings.packages, settings.import_path))
    found = []
    for name in settings.packages:
        try:
            importlib.import_module(name)
            found.append(name)
        except ImportError:
            continue  # numpy and pandas are an optional extra
    import _sitebuiltins

    # site, which defines these, is not loaded, for its paths; models end scripts with exit()
    for word in ("exit", "quit"):
        setattr(builtins, word, _sitebuiltins.Quitter(word, "Ctrl-D"))
    sys.argv = [""]
    os.environ.clear()
    seccomp.build_here(shares_host=settings.shares_host)  # caches the larger part for every child
    for stream in (sys.stdout, sys.stderr):
        # line-buffered, so that what was printed before a timeout is not lost
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    gc.collect()
    gc.freeze()  # collecting in a child would touch, and so copy, the shared pages
    return found


def _open_directories(settings: Settings) -> frozenset[int]:
    """Return the fallback's library directories, which the host opened: code imports through them."""
    kept = set()
    for entry in (*sys.path, *settings.import_path):
        if entry.startswith("/proc/self/fd/"):
            kept.add(int(entry.split("/")[4]))
    return frozenset(kept)


def _next_run(control: socket.socket) -> list[int]:
    """Return the descriptors of the next execution; empty if the host is gone."""
    while True:
        order, fds, _, _ = socket.recv_fds(control, 64, 3)
        if order != b"kill":
            return list(fds)
        # the order was sent before our report arrived: that execution is over


def _spawn(settings: Settings, own_pids: int, base: ProcessMemory, kept: frozenset[int]) -> _Child:
    """Fork a child, which confines itself and waits for its code."""
    status = 0
    for _ in range(_NUM_HAND_OVERS):
        ours, theirs = socket.socketpair()
        if own_pids >= 0:
            setns(own_pids, NEWPID)  # the last namespace died with its child
            unshare(NEWPID)
        pid = os.fork()
        if pid == 0:
            _be_the_child(settings, theirs, base, kept)
        theirs.close()
        if ours.recv(1) == b"!":
            return _Child(pid, os.pidfd_open(pid), ours)
        ours.close()
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            break  # it wrote the reason to stderr; code must never run unconfined
    sys.exit(f"the child could not be confined (wait status {status})")


def _be_the_child(
    settings: Settings, channel: socket.socket, base: ProcessMemory, kept: frozenset[int]
) -> None:
    """Confine this process, receive code, run it, send the outcome, exit. Never returns."""
    status = 70  # EX_SOFTWARE
    try:
        _close_all_but({channel.fileno(), *kept})
        if settings.shares_host:
            os.setsid()
        confine(settings, base_bytes=base.total_bytes)
        own_pid = os.getpid()
        channel.send(b"!")
        _, (request_fd, output_fd, result_fd), _, _ = socket.recv_fds(channel, 1, 3)
        channel.send(b"!")
        channel.close()
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        with os.fdopen(request_fd, "rb") as file:
            request = json.loads(file.read())
        _reseed()
        outcome = snippet.execute(
            request["sources"],
            request["variables"],
            request["result_names"],
            settings.value_bytes,
            settings.output_bytes,
        )
        sys.stdout.flush()
        if os.getpid() != own_pid:
            os._exit(0)  # a process that the code forked: only the first one sends the result
        # a lone surrogate becomes its JSON escape
        text = json.dumps(outcome, ensure_ascii=False).encode("utf-8", "backslashreplace")
        _write_all(result_fd, text)
        status = 0
    except BaseException as error:  # noqa: BLE001 (this process must end here, whatever happened)
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _close_all_but(kept: set[int]) -> None:
    """Close all descriptors except `kept` and the standard three."""
    first = 3
    for fd in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        if fd > first:  # an empty range from 0 would close everything
            os.closerange(first, fd)
        first = fd + 1


def _reseed() -> None:
    """Reseed numpy's global generator, which every child inherits; `random` reseeds itself after a fork."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _hand_over(child: _Child, fds: list[int]) -> bool:
    """Pass the descriptors on; returns False if the child died before: then another one may run the code."""
    with child.channel:
        try:
            socket.send_fds(child.channel, [b"!"], fds)
            return child.channel.recv(1) == b"!"
        except OSError:
            return False


def _watch(settings: Settings, control: socket.socket, child: _Child, base: ProcessMemory) -> Reason:
    """Wait until the code ends, or until there is a reason to end it."""
    deadline = time.monotonic() + settings.wall_seconds
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(child.pidfd, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return Reason.TIMEOUT
        ready = {fd for fd, _ in poll.poll(1000 * min(left, _TICK_SECONDS))}
        if child.pidfd in ready:
            return Reason.NONE
        if control.fileno() in ready:
            control.recv(64)
            return Reason.ORDERED  # a kill order, or the host is gone: both end it
        if bytes_together(_pids_of(settings, child), base) > settings.memory_bytes:
            return Reason.MEMORY


def _pids_of(settings: Settings, child: _Child) -> list[str]:
    """Return the execution's processes: RLIMIT_AS limits one, `memory_bytes` limits all together."""
    if settings.shares_host:
        return [str(child.pid)]
    ours = {"1", str(os.getpid())}
    return [name for name in os.listdir("/proc") if name.isdigit() and name not in ours]  # noqa: PTH208
