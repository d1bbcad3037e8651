"""Start a stdio server and read its JSON-RPC lines within bounds; kill its whole process group at the end.

The SDK's own stdio transport joins chunks quadratically, takes lines of any length, logs a traceback per
line of junk and cannot tell why a server went away. Training runs into all four.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio
import mcp_types as wire
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from turnwise.mcp.processes.walls import Namespace
from turnwise.mcp.replies import read_message
from turnwise.system.net.line_splitter import BoundedLine, LineSplitter

logger = logging.getLogger(__name__)

INHERITED = (
    *("PATH", "HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""The only variables that a child inherits: enough to find a program, and files of the certificates that this
network is trusted by, without which `uvx` and `npx` install nothing. Secrets come from its `env` block."""

OWN_PROGRAM = "turnwise"
"""Our own command; it need not be on the PATH."""

TOO_LARGE_CODE = -32901
"""JSON-RPC error code that replaces a reply larger than `max_message_bytes`."""

UNREADABLE_CODE = -32902
"""JSON-RPC error code that replaces a reply that cannot be read."""

_CHUNK_BYTES = 1 << 16
_STDERR_LINES = 20
_STDERR_LINE_BYTES = 500
_EXIT_POLL_SECONDS = 0.5
_EXIT_GRACE_SECONDS = 1.0
_TERM_GRACE_SECONDS = 0.5
_FLOOD_MESSAGES = 16
"""Junk of this many times `max_message_bytes`, with no valid message in between, ends the server."""
_JUNK_LINE_BYTES = 1_000
"""A line of junk counts as at least this long: even a short one takes 5 µs, as does 1 kB of a long one."""

_PR_SET_DUMPABLE = 4

_OBJECT = re.compile(rb"\s*\{")
# Find the id of a reply that cannot be parsed: Python's SDK writes it first, TypeScript's last.
_ID_FIRST = re.compile(rb'^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,18})\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*\}\s*$')
# A request from the server also has an id, but one that the server chose: it is not a reply to us.
_REQUEST = re.compile(
    rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*[^,]{1,40},\s*)?"method"\s*:'
)

Inbox = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], "_Stdin"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command line with every variable filled in."""

    program: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None
    max_message_bytes: int
    namespace: Namespace | None = None
    """The namespaces that it runs in; None: it sees all of the real machine."""

    @property
    def environment(self) -> dict[str, str]:
        return {**{key: os.environ[key] for key in INHERITED if key in os.environ}, **self.env}

    @property
    def path(self) -> str | None:
        """The program's path, looked up on the child's PATH; `turnwise` is the one that runs now."""
        own = Path(sys.executable).with_name(OWN_PROGRAM)
        if self.program == OWN_PROGRAM and own.is_file():
            return str(own)
        return shutil.which(self.program, path=self.environment.get("PATH", os.defpath))


@dataclass(slots=True)
class Vitals:
    """The state of a connection and its process, kept after both are gone."""

    closed: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    pid: int | None = None
    exit_code: int | None = None
    stderr_tail: deque[str] = field(default_factory=lambda: deque(maxlen=_STDERR_LINES))

    def close(self, reason: str) -> None:
        """Record the first reason; later ones are its consequences."""
        if not self.closed.is_set():
            self.explain(reason)

    def explain(self, reason: str) -> None:
        """Close with a reason that only the connection's owner knows, unless one is recorded already."""
        self.reason = self.reason or reason
        self.closed.set()


@contextlib.asynccontextmanager
async def stdio_transport(command: Command, vitals: Vitals) -> AsyncIterator[Streams]:
    """Spawn the server and connect its pipes; on exit its whole process group is killed."""
    process = await _spawn(command)
    vitals.pid = process.pid
    inbox, received = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_stdout, process, inbox, command.max_message_bytes, vitals)
        tasks.start_soon(_read_stderr, process, vitals)
        tasks.start_soon(_watch_exit, process, inbox, vitals)
        try:
            yield received, _Stdin(process, vitals)
        finally:
            vitals.closed.set()  # from here on we cause the pipe errors ourselves
            with anyio.CancelScope(shield=True):
                await _stop(process)
                vitals.exit_code = process.returncode
            tasks.cancel_scope.cancel()
            for stream in (inbox, received):
                stream.close()


async def _spawn(command: Command) -> asyncio.subprocess.Process:
    program = command.path
    if program is None:
        raise FileNotFoundError(f"command {command.program!r} is not on PATH")
    _close_to_others()
    argv = [program, *command.args]
    with contextlib.ExitStack() as exits:
        cwd, descriptors = command.cwd, tuple[int, ...]()
        if command.namespace is not None:
            argv, descriptors = exits.enter_context(command.namespace.entry(argv, cwd))
            cwd = None
        elif setpriv := shutil.which("setpriv") if sys.platform == "linux" else None:
            # A hung server does not notice that its stdin closed: have the kernel kill it if we are killed.
            argv = [setpriv, "--pdeathsig", "KILL", *argv]
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=command.environment,
            cwd=cwd,
            pass_fds=descriptors,
            start_new_session=True,
        )


def _close_to_others() -> None:
    """Keep other processes of this user from reading our memory and environment, which hold API keys.

    Walls do that for a server inside them; this also holds for one without walls, unless it is root.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


async def _read_stdout(
    process: asyncio.subprocess.Process, inbox: Inbox, max_bytes: int, vitals: Vitals
) -> None:
    assert process.stdout is not None
    lines = LineSplitter(max_bytes)
    num_junk_bytes = 0
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            num_junk_bytes += len(chunk)
            for line in lines.feed(chunk):
                message = _parse(line)
                if message is None:
                    num_junk_bytes += max(_JUNK_LINE_BYTES - line.num_bytes, 0)
                else:
                    num_junk_bytes = 0
                    await inbox.send(SessionMessage(message))
            if num_junk_bytes > _FLOOD_MESSAGES * max_bytes:
                vitals.close(f"flooded stdout with {num_junk_bytes:,} bytes of junk")
                break
        vitals.close("closed its stdout")
    inbox.close()


def _parse(line: BoundedLine) -> wire.JSONRPCMessage | None:
    """Return the message, an error reply in place of an unreadable one, or None for junk."""
    if not _OBJECT.match(line.data):  # cheap: the parser would raise on each line of a flood of junk
        return None
    if not line.is_cut:
        try:
            return read_message(line.data)
        except ValueError:
            pass
    match = _ID_FIRST.search(line.data) or _ID_LAST.search(line.data)
    if match is None or _REQUEST.search(line.data):
        return None
    if line.is_cut:
        code, text = TOO_LARGE_CODE, f"the result has {line.num_bytes:,} bytes, which is too large"
    else:
        code, text = UNREADABLE_CODE, "the server's reply was not JSON-RPC"
    error = wire.ErrorData(code=code, message=text)
    return wire.JSONRPCError(jsonrpc="2.0", id=int(match.group(1)), error=error)


class _Stdin:
    """The SDK's write stream, directly on the pipe: a queue and a task in between would slow every call."""

    def __init__(self, process: asyncio.subprocess.Process, vitals: Vitals) -> None:
        assert process.stdin is not None
        self._pipe = process.stdin
        self._vitals = vitals
        self._draining = asyncio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._pipe.write(text.encode() + b"\n")
            if self._pipe.transport.get_write_buffer_size() > _CHUNK_BYTES:
                async with self._draining:
                    await self._pipe.drain()
        except (ConnectionError, RuntimeError):
            # RuntimeError: uvloop and asyncio raise it for a pipe that is already closed.
            self._vitals.close("closed its stdin")
            raise anyio.BrokenResourceError from None
        if self._pipe.is_closing():
            self._vitals.close("closed its stdin")
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Do nothing: the pipe is closed with its process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


async def _read_stderr(process: asyncio.subprocess.Process, vitals: Vitals) -> None:
    assert process.stderr is not None
    pending = b""
    while chunk := await process.stderr.read(_CHUNK_BYTES):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines[-_STDERR_LINES:]:
            vitals.stderr_tail.append(line[:_STDERR_LINE_BYTES].decode("utf-8", "replace"))
        pending = pending[-_STDERR_LINE_BYTES:]
    if pending:
        vitals.stderr_tail.append(pending.decode("utf-8", "replace"))


async def _watch_exit(process: asyncio.subprocess.Process, inbox: Inbox, vitals: Vitals) -> None:
    """Close the connection of a dead server even if a grandchild still holds its stdout open."""
    while process.returncode is None:
        await asyncio.sleep(_EXIT_POLL_SECONDS)
    vitals.exit_code = process.returncode
    await asyncio.sleep(_EXIT_POLL_SECONDS)  # its last output may still be in the reader
    vitals.close(f"exited with code {process.returncode}")
    inbox.close()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close stdin, as the protocol asks; then send SIGTERM and SIGKILL to the whole group."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _has_exited(process, _EXIT_GRACE_SECONDS):
        _signal_group(process.pid, signal.SIGTERM)
        await _has_exited(process, _TERM_GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)
    await _has_exited(process, _EXIT_GRACE_SECONDS)
    # While a surviving process holds a pipe, the transport stays open; no public method closes it.
    process._transport.close()  # type: ignore[attr-defined]


async def _has_exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not process.wait(): it also waits for the pipes, which a grandchild may hold open.
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(0.005)
    return True


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
