"""A user's environment class: found by its name, leased for episodes, and asked for its tasks."""

import contextlib
import functools
import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any
from weakref import WeakKeyDictionary

from turnwise.mcp.calls.arguments import ArgumentChecker
from turnwise.mcp.toolbox import Readability
from turnwise.system.python_functions import NOTHING_GIVEN, Given, find_function
from turnwise.tasks.load import from_rows
from turnwise.types import Task, Tool
from turnwise.worlds.environment import shapes
from turnwise.worlds.environment.instance import Instance
from turnwise.worlds.environment.leased import LeasedEnvironment

logger = logging.getLogger(__name__)


def find_environment(name: str, given: Given = NOTHING_GIVEN) -> Callable[[], Any]:
    """Return the class, or a function that makes an object of it; ValueError if it cannot be one.

    `given`: classes that the caller gave as objects.
    """
    factory = find_function(name, "environment", given)
    if not inspect.isclass(factory):
        return factory
    for method in ("reset", "step"):
        if not callable(getattr(factory, method, None)):
            raise ValueError(
                f"environment {name!r} has no method {method}(): see docs/guides/environments.md"
            )
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ValueError(
            f"environment {name!r} cannot be made without arguments ({error}): "
            "name a function that returns the object instead"
        ) from None
    return factory


def scores_episodes(environment: Callable[[], Any]) -> bool:
    """Return whether its objects score episodes; True if that is not known before one is made."""
    return not inspect.isclass(environment) or callable(getattr(environment, "score", None))


def generated_tasks(name: str, environment: Callable[[], Any]) -> dict[str, tuple[Task, ...]]:
    """Return the tasks of the class's own `tasks()`, by split; empty if it has no such method."""
    make = getattr(environment, "tasks", None)
    if not callable(make):
        return {}
    try:
        inspect.signature(make).bind()
        tasks = from_rows(make(), "tasks()")
    except Exception as error:
        hint = "; is it a staticmethod or a classmethod?" if isinstance(error, TypeError) else ""
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"environment {name!r}: tasks() failed: {what}{hint}") from error
    splits = dict.fromkeys(task.split for task in tasks)
    return {split: tuple(task for task in tasks if task.split == split) for split in splits}


class PythonEnvironment:
    """A user's class that is ready to be leased: every lease makes its own object and closes it."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        readability: Readability,
        *,
        timeout_seconds: float,
        is_mending: bool,
    ) -> None:
        self.name = name
        self._make = make
        self._readability = readability
        self._timeout_seconds = timeout_seconds
        self._is_mending = is_mending
        self._tools: WeakKeyDictionary[Any, Tool] = WeakKeyDictionary()

    @property
    def has_score(self) -> bool:
        return scores_episodes(self._make)

    @contextlib.asynccontextmanager
    async def lease(self, task: Task) -> AsyncIterator[LeasedEnvironment]:
        """Yield an environment that is reset to the task. Raises EnvironmentDown, or RuntimeError for a bug.

        The object is closed exactly once, however the episode ends.
        """
        instance = Instance(self.name, task.id, self._timeout_seconds)
        try:
            await instance.build(self._make)
            leased = LeasedEnvironment(
                self.name, instance, self._readability, self._as_tool, self._as_checker
            )
            await leased.reset(task)
            yield leased
        except BaseException:
            try:
                await instance.close()
            except RuntimeError as error:  # what ended the episode is the better message
                logger.warning("%s", error)
            raise
        await instance.close()

    def _as_tool(self, item: Any) -> Tool:
        """Return the tool; a function's is kept, since its schema takes a millisecond to compute."""
        function = getattr(item, "__func__", item)
        if not inspect.isfunction(function):
            return shapes.tool_of(item)
        if function not in self._tools:
            self._tools[function] = shapes.tool_of(item)
        return self._tools[function]

    def _as_checker(self, tool: Tool) -> ArgumentChecker:
        return _checker(tool.name, json.dumps(dict(tool.input_schema)), self._is_mending)


@functools.lru_cache(maxsize=256)
def _checker(tool: str, schema: str, is_mending: bool) -> ArgumentChecker:
    return ArgumentChecker(tool, json.loads(schema), is_mending=is_mending)
