"""Takes sources and variables, gives the `Execution`: one zygote process, one execution at a time."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnwise.sandbox.execution import Execution, Limits, SandboxDown, Stop
from turnwise.sandbox.isolation import Kind, launch_behind
from turnwise.sandbox.launch import Zygote, send_run, start

_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0
"""How long past the wall limit a zygote may take to report before it is given up."""


class Worker:
    """A warm zygote. Any exception of `run` but ValueError leaves it unusable: end it and start another."""

    def __init__(self, kind: Kind, limits: Limits, packages: Sequence[str]) -> None:
        self._limits = limits
        self._number = 0
        self._is_warm = False
        try:
            with launch_behind(kind) as launch:
                self._zygote: Zygote = start(launch, limits, packages)
        except OSError as error:
            raise SandboxDown(f"the sandbox could not be started: {error}") from error
        self._zygote.control.setblocking(False)

    @property
    def pid(self) -> int:
        """Of the process that was started: bubblewrap's own, or the zygote."""
        return self._zygote.process.pid

    @property
    def is_alive(self) -> bool:
        return self._zygote.process.poll() is None

    def kill(self) -> None:
        self._zygote.end()

    async def close(self) -> None:
        """Let it leave by itself, so that nothing of it is left when this returns."""
        await asyncio.to_thread(self._zygote.end, 2.0)

    async def run(
        self, sources: Sequence[str], variables: Mapping[str, Any], result_names: Sequence[str]
    ) -> Execution:
        """Raises SandboxDown when the zygote, not the code, failed."""
        request = json.dumps(
            {"sources": list(sources), "variables": variables, "result_names": list(result_names)}
        ).encode()
        if not self._is_warm:
            await self._receive(_START_SECONDS)
            self._is_warm = True
        self._number += 1
        output_fd, output_end = os.pipe()
        result_fd, result_end = os.pipe()
        limits = self._limits
        output = _Drain(output_fd, limits.output_bytes, self._order_kill)
        # every byte of a value can become two in JSON, and a shown character takes up to four
        result = _Drain(result_fd, 2 * limits.value_bytes + 8 * limits.output_bytes + 65536, self._order_kill)
        started = time.perf_counter()
        try:
            try:
                send_run(self._zygote.control, self._number, request, output_end, result_end)
            except OSError as error:
                raise SandboxDown(f"the sandbox died: {self._zygote.last_words() or error}") from error
            finally:
                os.close(output_end)
                os.close(result_end)
            report = await self._receive(limits.wall_seconds + _GRACE_SECONDS)
            seconds = time.perf_counter() - started
            output.finish()
            result.finish()
        finally:
            output.close()
            result.close()
        return _judge(report, output, result, limits, seconds)

    def _order_kill(self) -> None:
        self._zygote.control.send(b"kill %d" % self._number)

    async def _receive(self, seconds: float) -> dict[str, Any]:
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
        parsed: dict[str, Any] = json.loads(message)
        return parsed


class _Drain:
    """Reads a pipe as it fills, and stops at `limit` bytes: what is behind it is hostile."""

    def __init__(self, fd: int, limit: int, on_overflow: Callable[[], None]) -> None:
        self._fd, self._limit, self._on_overflow = fd, limit, on_overflow
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self.data = bytearray()
        self.overflowed = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> bool:
        """False when there is nothing more for now."""
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
        """Take what is left: every writer is dead, so this ends."""
        while not self.overflowed and self._read():
            pass

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)


def _judge(
    report: dict[str, Any], output: _Drain, result: _Drain, limits: Limits, seconds: float
) -> Execution:
    stdout = output.data.decode("utf-8", "replace")
    stopped, error = _stopped(report, limits, is_output=output.overflowed)
    outcome = _parse_outcome(bytes(result.data)) if stopped is Stop.NONE else None
    if stopped is Stop.NONE and outcome is None:
        stopped, error = Stop.EXITED, f"the process ended with status {report['exit_code']} before a result"
    if outcome is None:
        return Execution(stdout, "", None, error, stopped, seconds)
    return Execution(
        stdout=stdout,
        value=_text(outcome.get("value")),
        value_json=_json_text(outcome.get("value_json")),
        error=_text(outcome.get("error")),
        stopped=Stop.MEMORY if outcome.get("is_memory") is True else Stop.NONE,
        seconds=seconds,
    )


def _stopped(report: dict[str, Any], limits: Limits, *, is_output: bool) -> tuple[Stop, str]:
    reasons = {
        "timeout": (Stop.TIMEOUT, f"stopped: ran longer than {limits.wall_seconds:g} s"),
        "cpu": (Stop.CPU, f"stopped: used more than {limits.cpu_seconds} s of CPU"),
        "memory": (Stop.MEMORY, f"stopped: used more than {limits.memory_bytes >> 20} MiB of memory"),
        "killed": (Stop.KILLED, "stopped: its result was too large"),
    }
    # an execution may print its last byte too many and end before the order to kill arrives
    if is_output:
        return Stop.OUTPUT, f"stopped: printed more than {limits.output_bytes} bytes"
    if report["reason"]:
        return reasons[report["reason"]]
    if report["signal"]:
        return Stop.KILLED, f"killed by {signal.Signals(report['signal']).name}"
    return Stop.NONE, ""


def _parse_outcome(data: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _text(value: object) -> str:
    """Lone surrogates go: they cannot be sent on."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _json_text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return _text(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
