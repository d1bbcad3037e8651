"""Start a zygote process and the socket that controls it."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO

from turnwise.sandbox.execution import SandboxLimits
from turnwise.sandbox.inside.settings import Settings
from turnwise.sandbox.layout import PACKAGES, spare_uids

ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # the order of sets is the same in every worker, so runs can be repeated
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MiB of the address space that is limited
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TZ": "UTC",
}
"""Of the zygote; code sees an empty one."""

_START = "import sys; sys.path.insert(0, {!r}); from inside.zygote import main; del sys.path[0]; main()"


@dataclass(frozen=True, slots=True)
class Launch:
    """A command whose standard input is to be the control socket, and what its zygote must be told."""

    command: Sequence[str]
    environment: Mapping[str, str]
    fds: tuple[int, ...]
    """Directories to inherit; owned by the caller."""
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
        """The end of its stderr, for the reason of a death."""
        self.errors.seek(0)
        return self.errors.read()[-2000:].decode("utf-8", "replace").strip()

    def end(self, patience_seconds: float = 0.0) -> None:
        """Close the control socket, at which it leaves by itself, then make sure."""
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
    """No site, no user directory, no working directory on the path, nothing written."""
    return ["-s", "-S", "-P", "-B", "-X", "utf8", "-c", _START.format(inside)]


def start(launch: Launch, limits: SandboxLimits, packages: Sequence[str] = PACKAGES) -> Zygote:
    """Start the process and send it its settings; it answers when it is warm."""
    # packets: an order is whole or absent, whatever the sizes
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
        reason = zygote.last_words() or str(error)  # it is already gone, and has said why
        zygote.end()
        raise OSError(error.errno, reason) from error
    return zygote


def send_run(control: socket.socket, request: bytes, output_fd: int, result_fd: int) -> None:
    """Order an execution: the request travels in a sealed memory file, the answers through the pipes."""
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
    """Order the end of the execution; without effect once it is over, since orders keep their sequence."""
    control.send(b"kill")
