"""One object of a user's environment class: its methods are called with a time limit and typed faults."""

import asyncio
import inspect
import logging
import reprlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnwise.system import serial_thread
from turnwise.system.serial_thread import SerialThread
from turnwise.types.protocols import EnvironmentDown, EnvironmentSlow

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 5.0
"""How long closing waits for a method that is still running although its caller was cancelled."""


class Instance:
    """One object for one episode. Its methods that are not async all run in one separate thread.

    EnvironmentDown and a call past the time limit are raised as EnvironmentDown; any other exception is a bug
    in the class and is raised as a RuntimeError that names the class, the method and the task.
    """

    def __init__(self, name: str, task_id: str, timeout_seconds: float) -> None:
        self._name = name
        self._task_id = task_id
        self._timeout_seconds = timeout_seconds
        self._thread = SerialThread()
        self._object: Any = None
        self._is_closed = False

    async def build(self, make: Callable[[], Any]) -> None:
        """Make the object; RuntimeError if it lacks a method that it needs."""

        def made() -> Any:
            # In the thread: the object is closed although its caller was cancelled meanwhile.
            self._object = make()
            return self._object

        self._object = await self._run("__init__", made)
        for method in ("reset", "step"):
            if not self.has(method):
                raise self.bug(method, "is missing")

    def has(self, method: str) -> bool:
        return callable(getattr(self._object, method, None))

    def setting(self, name: str, default: bool) -> bool:
        """Return an attribute of the object or its class that is True or False."""
        value = getattr(self._object, name, default)
        if not isinstance(value, bool):
            raise RuntimeError(f"environment {self._name!r}: {name} must be True or False, not {value!r}")
        return value

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object."""
        return await self._run(method, getattr(self._object, method), *arguments)

    def _raised(self, method: str, error: Exception, arguments: Sequence[Any]) -> RuntimeError:
        """Return the error for an exception of the user's class: where it was, and what `step` was given."""
        detail = f", given {reprlib.repr(arguments[0])}" if method == "step" else ""
        return self.bug(method, f"raised {type(error).__name__}: {error}{_place(error)}{detail}")

    def bug(self, method: str, what: str) -> RuntimeError:
        """Return the error for a mistake in the user's class."""
        return RuntimeError(f"environment {self._name!r}: {method}() {what} (task {self._task_id!r})")

    async def close(self) -> None:
        """Call `close` once, after all other methods have returned, and let the thread end."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._object is None and self._thread.is_busy:  # cancelled while it was made
                await self._wait(self._thread.submit(lambda: None))
            if self._object is not None and self.has("close"):
                await self._close()
        except EnvironmentDown as error:  # the episode has ended: nothing is lost
            logger.warning("%s", error)
        finally:
            self._thread.end()

    async def _close(self) -> None:
        method = self._object.close
        if self._thread.is_busy:  # with a method that was cancelled or took too long
            is_async = inspect.iscoroutinefunction(method)
            # A plain `close` is queued and runs when that method returns, however long that takes.
            await self._wait(self._thread.submit((lambda: None) if is_async else method))
            if not is_async:
                return
        await self._run("close", method)

    async def _wait(self, job: "asyncio.Future[Any]") -> None:
        _, unfinished = await asyncio.wait([job], timeout=_GRACE_SECONDS)
        if unfinished:
            logger.warning("environment %r: a method does not return: close() waits for it", self._name)

    async def _run(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        limit = asyncio.timeout(self._timeout_seconds)
        try:
            async with limit:
                if inspect.iscoroutinefunction(function):
                    return await function(*arguments)
                value = await self._thread.submit(lambda: function(*arguments))
                return await value if inspect.isawaitable(value) else value
        except EnvironmentDown as error:
            raise EnvironmentDown(f"environment {self._name!r}: {name}(): {error}") from error
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                seconds = f"{self._timeout_seconds:g} s (tools.function_timeout_seconds)"
                raise EnvironmentSlow(
                    f"environment {self._name!r}: {name}() took longer than {seconds}"
                ) from error
            raise self._raised(name, error, arguments) from error


def _place(error: Exception) -> str:
    """Return the last line of the user's own file that led to the error, not that of a library below it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = max(number for number, frame in enumerate(frames) if frame.filename == __file__)
    theirs = [
        frame for frame in frames[ours + 1 :] if frame.filename not in (serial_thread.__file__, __file__)
    ]
    if not theirs:
        return ""
    last = [frame for frame in theirs if frame.filename == theirs[0].filename][-1]
    return f" at {Path(last.filename).name}:{last.lineno}"
