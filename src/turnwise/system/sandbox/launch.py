"""Start a zygote process and the socket that controls it."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO

from turnwise.system.sandbox.execution import SandboxLimits
from turnwise.system.sandbox.inside.settings import Settings
from turnwise.system.sandbox.layout import PACKAGES, spare_uids

ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # sets have the same order in every worker, so runs are reproducible
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB of the limited address space
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TZ": "UTC",
}
"""The zygote's environment; that of the code is empty."""

_START = "import sys; sys.path.insert(0, {!r}); from inside.zygote import main; del sys.path[0]; main()"


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a zygote, whose standard input is the control socket, and parts of its settings."""

    command: Sequence[str]
    environment: Mapping[str, str]
    fds: tuple[int, ...]
    """Open directories that the process inherits; the caller closes them."""
    shares_host: bool
    import_path: tuple[str, ...]
    readable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Zygote:
    """A started zygote; `errors` is its stderr."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    errors: IO[bytes]

    def last_words(self) -> str:
        """Return the end of its stderr, which explains why it died."""
        self.errors.seek(0)
        return self.errors.read()[-2000:].decode("utf-8", "replace").strip()

    def end(self, patience_seconds: float = 0.0) -> None:
        """Close the control socket, at which the zygote exits; kill it after `patience_seconds`."""
        self.control.close()
        try:
            if patience_seconds:
                self.process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            pass  # it is killed below
        finally:
            self.process.kill()
            self.process.wait()
            self.errors.close()


def python_arguments(inside: str) -> list[str]:
    """Return arguments for: no site, no user or working directory on the path, no bytecode written."""
    return ["-s", "-S", "-P", "-B", "-X", "utf8", "-c", _START.format(inside)]


def start(launch: Launch, limits: SandboxLimits, packages: Sequence[str] = PACKAGES) -> Zygote:
    """Start the process and send its settings; it answers once its packages are imported."""
    # packets: a message arrives whole or not at all, whatever its size
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the zygote)
    with theirs:
        process = subprocess.Popen(
            launch.command,
            env=dict(launch.environment),
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=launch.fds,
            cwd="/",
        )
    first_uid, num_uids = spare_uids()
    settings = Settings(
        shares_host=launch.shares_host,
        import_path=launch.import_path,
        packages=tuple(packages),
        readable=launch.readable,
        first_uid=first_uid,
        num_uids=num_uids,
        **asdict(limits),
    )
    zygote = Zygote(process, ours, errors)
    try:
        ours.send(json.dumps(asdict(settings)).encode())
    except OSError as error:
        reason = zygote.last_words() or str(error)  # it has exited, and wrote the reason
        zygote.end()
        raise OSError(error.errno, reason) from error
    return zygote


def send_run(control: socket.socket, request: bytes, output_fd: int, result_fd: int) -> None:
    """Order an execution: the request is in a sealed memory file, the answers come through the pipes."""
    import fcntl

    memory = os.memfd_create("request", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(memory, "w+b") as file:
        file.write(request)
        file.flush()
        file.seek(0)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        socket.send_fds(control, [b"run"], [memory, output_fd, result_fd])


def send_kill(control: socket.socket) -> None:
    """Order the zygote to kill the execution; it ignores an order that comes after the end."""
    control.send(b"kill")
