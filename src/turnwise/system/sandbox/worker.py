"""A worker: one zygote process, which runs one execution at a time."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnwise.system.sandbox.ending import execution_of
from turnwise.system.sandbox.execution import Execution, SandboxDown, SandboxLimits
from turnwise.system.sandbox.inside.report import read_report
from turnwise.system.sandbox.isolation import Kind, launch_behind
from turnwise.system.sandbox.launch import Zygote, send_kill, send_run, start

_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0
"""How long past the wall limit a zygote may take to report before it counts as failed."""


class Worker:
    """A warm zygote. Any exception of `run` except ValueError makes it unusable: end it and start another."""

    def __init__(self, kind: Kind, limits: SandboxLimits, packages: Sequence[str]) -> None:
        self._limits = limits
        self._is_warm = False
        try:
            with launch_behind(kind) as launch:
                self._zygote: Zygote = start(launch, limits, packages)
        except OSError as error:
            raise SandboxDown(f"the sandbox could not be started: {error}") from error
        self._zygote.control.setblocking(False)

    @property
    def pid(self) -> int:
        """The pid of the process that was started: bubblewrap, or the zygote itself."""
        return self._zygote.process.pid

    @property
    def is_alive(self) -> bool:
        return self._zygote.process.poll() is None

    def kill(self) -> None:
        self._zygote.end()

    async def close(self) -> None:
        """Let the zygote exit by itself, for at most 2 s, so that none of its processes is left."""
        await asyncio.to_thread(self._zygote.end, 2.0)

    async def run(
        self, sources: Sequence[str], variables: Mapping[str, Any], result_names: Sequence[str]
    ) -> Execution:
        """Run one execution; raises SandboxDown if the zygote, not the code, failed."""
        request = json.dumps(
            {"sources": list(sources), "variables": variables, "result_names": list(result_names)}
        ).encode()
        if not self._is_warm:
            await self._receive(_START_SECONDS)
            self._is_warm = True
        output_fd, output_end = os.pipe()
        result_fd, result_end = os.pipe()
        limits = self._limits
        output = _Drain(output_fd, limits.output_bytes, self._order_kill)
        # a byte of the value can become two in JSON, and a shown character takes up to four bytes
        result = _Drain(result_fd, 2 * limits.value_bytes + 8 * limits.output_bytes + 65536, self._order_kill)
        started = time.perf_counter()
        try:
            try:
                send_run(self._zygote.control, request, output_end, result_end)
            except OSError as error:
                raise SandboxDown(f"the sandbox died: {self._zygote.last_words() or error}") from error
            finally:
                os.close(output_end)
                os.close(result_end)
            report = read_report(await self._receive(limits.wall_seconds + _GRACE_SECONDS))
            seconds = time.perf_counter() - started
            output.finish()
            result.finish()
        finally:
            output.close()
            result.close()
        return execution_of(
            report, bytes(output.data), bytes(result.data), limits, seconds, is_output_full=output.overflowed
        )

    def _order_kill(self) -> None:
        send_kill(self._zygote.control)

    async def _receive(self, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                message = await loop.sock_recv(self._zygote.control, 4096)
        except TimeoutError as error:
            raise SandboxDown(f"the sandbox did not answer within {seconds:g} s") from error
        except OSError as error:
            raise SandboxDown(f"the sandbox died: {self._zygote.last_words() or error}") from error
        if not message:
            raise SandboxDown(f"the sandbox died: {self._zygote.last_words() or 'no reason given'}")
        return message


class _Drain:
    """Reads a pipe as it fills, and stops at `limit` bytes: the writer is hostile."""

    def __init__(self, fd: int, limit: int, on_overflow: Callable[[], None]) -> None:
        self._fd, self._limit, self._on_overflow = fd, limit, on_overflow
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self.data = bytearray()
        self.overflowed = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> bool:
        """Read once; returns False if there is nothing more to read now."""
        try:
            chunk = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        room = self._limit - len(self.data)
        self.data += chunk[:room]
        if len(chunk) > room and not self.overflowed:
            self.overflowed = True
            self._on_overflow()
        if not chunk or self.overflowed:
            self._loop.remove_reader(self._fd)
            return False
        return True

    def finish(self) -> None:
        """Read the rest; every writer is dead, so this ends."""
        while not self.overflowed and self._read():
            pass

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
