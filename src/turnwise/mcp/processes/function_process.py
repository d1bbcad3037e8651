"""The client of the process in which importable functions run, so that none can stop the event loop.

Even a thread stops all others while it computes in C: `sum(range(10**10))` holds the interpreter's lock.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from turnwise.mcp.serve import Handler, ToolError, Unavailable

logger = logging.getLogger(__name__)

_MAX_LINE_BYTES = 1 << 26
_PATIENCE_SECONDS = 1.0
"""How long the process may take to say that it still answers, after a call has run out of time."""


class FunctionProcess:
    """One process for all functions: they share its state, as functions of a module do.

    A call that runs out of time leaves its thread behind. If the process does not answer any more, it is
    replaced; the other calls in it are then lost, and what the functions kept in memory.
    """

    def __init__(self, names: Sequence[str], timeout_seconds: float) -> None:
        self._names = list(names)
        self._timeout_seconds = timeout_seconds
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._ready = asyncio.Event()
        self._is_closing = False

    def handler(self, name: str) -> Handler:
        async def handle(arguments: Mapping[str, Any], _episode: str) -> str:
            return await self._call(name, arguments)

        return handle

    @contextlib.asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Run the process for as long as the block lasts; ValueError if the functions cannot be imported."""
        self._is_closing = False
        async with asyncio.TaskGroup() as self._tasks:
            await self._start()
            try:
                yield
            finally:
                self._is_closing = True
                self._end()

    async def _start(self) -> None:
        setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
        alone = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        self._process = await asyncio.create_subprocess_exec(
            *(*alone, sys.executable, "-m", "turnwise.mcp.processes.function_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            self._send({"path": sys.path, "functions": self._names})
            assert self._process.stdout is not None
            said = await self._process.stdout.readline()
            why_not = json.loads(said).get("failed") if said else "the functions' process ended at its start"
        except BaseException:
            self._end()
            raise
        if why_not:
            self._end()
            await self._process.wait()
            raise ValueError(why_not)
        self._tasks.create_task(self._read(self._process))
        self._ready.set()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Pass on answers until the process ends; then fail what waits for it, and start another one."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = json.loads(line)
            future = self._waiting.pop(answer["id"], None)
            if future is not None and not future.done():
                future.set_result(answer)
        await process.wait()
        self._ready.clear()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable("the functions' process ended"))
        self._waiting.clear()
        if not self._is_closing:
            logger.warning(
                "the process of the functions ended (exit code %s): restarting", process.returncode
            )
            await self._start()

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        await self._ready.wait()
        future = self._asked({"function": name, "arguments": dict(arguments)})
        watch = asyncio.get_running_loop().call_later(self._timeout_seconds, self._suspect, self._process)
        try:
            answer = await future
        finally:
            if future.done() and not future.cancelled():
                watch.cancel()  # a call that was cut off by its time limit is still looked at
        if answer["kind"] == "ok":
            return str(answer["text"])
        raise (ToolError if answer["kind"] == ToolError.__name__ else Unavailable)(answer["text"])

    def _asked(self, request: Mapping[str, Any]) -> "asyncio.Future[Mapping[str, Any]]":
        number = next(self._numbers)
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"id": number, **request})
        return future

    def _suspect(self, process: asyncio.subprocess.Process) -> None:
        if process is self._process and not self._is_closing:
            self._tasks.create_task(self._end_if_stuck(process))

    async def _end_if_stuck(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._asked({})
        except TimeoutError:
            if process is self._process:
                logger.warning("a function blocks the process of the functions, which is ended")
                self._end()
        except Unavailable:  # it has ended meanwhile
            return

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
