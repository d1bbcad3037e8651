"""One episode of a user's environment, as the rollout sees it: a toolbox that also replies and scores."""

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments
from turnwise.mcp.toolbox import Readability
from turnwise.system.busy_clock import BusyClock
from turnwise.types import CallFailed, Cause, Message, Mistake, ServerLoss, Task, Tool, ToolCall, ToolResult
from turnwise.types.protocols import Environment, EnvironmentDown
from turnwise.worlds.environment import shapes
from turnwise.worlds.environment.instance import Instance

Shaped = TypeVar("Shaped")


class LeasedEnvironment:
    """The `Toolbox` and the `Environment` of one episode; see protocols.py."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        readability: Readability,
        as_tool: Callable[[Any], Tool],
        as_checker: Callable[[Tool], ArgumentChecker],
    ) -> None:
        self._name = name
        self._instance = instance
        self._readability = readability
        self._as_tool = as_tool
        self._as_checker = as_checker
        self._prompt: tuple[Message, ...] = ()
        self._tools: Mapping[str, Tool] = {}
        self._ever_offered: dict[str, Tool] = {}
        self._is_checking = True
        self._losses: list[ServerLoss] = []
        self._is_over = False
        self._clock = BusyClock()

    @property
    def environment(self) -> Environment:
        return self

    @property
    def tools(self) -> Sequence[Tool]:
        """All that this episode has offered so far."""
        return tuple(self._ever_offered.values())

    @property
    def offered(self) -> Sequence[Tool] | None:
        return tuple(self._tools.values())

    @property
    def losses(self) -> Sequence[ServerLoss]:
        return tuple(self._losses)

    @property
    def busy_seconds(self) -> float:
        return self._clock.seconds

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def reset(self, task: Task) -> None:
        """Begin the episode: ask for the prompt and the tools."""
        self._prompt = await self._ask("reset", lambda value: shapes.prompt_of(value, task), task)
        self._is_checking = self._instance.setting("checks_arguments", True)
        await self._ask_tools()

    async def _ask_tools(self) -> None:
        if self._instance.has("tools"):
            tools = await self._ask("tools", lambda value: shapes.tools_of(value, self._as_tool))
            self._tools = {tool.name: tool for tool in tools}
            self._ever_offered |= self._tools

    def posed(self, task: Task) -> Task:
        return replace(task, prompt=self._prompt)

    async def hear(self, text: str) -> str:
        """The reply, which is what a user says and is not cut as a result would be."""
        [observation] = await self._step(text, 0)
        if not self._is_over:
            await self._ask_tools()
        return self._readability.sanitiser.clean(observation)

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        """Give the valid calls to `step`, all at once; a call that is wrong in itself never reaches it."""
        checked = [self._checked(call) for call in calls]
        valid = tuple(call for call in checked if isinstance(call, ToolCall))
        started = time.perf_counter()
        observations = iter(await self._step(valid, len(valid)) if valid else ())
        seconds = time.perf_counter() - started
        return [
            self._result(checked_call, next(observations), seconds, max_tokens)
            if isinstance(checked_call, ToolCall)
            else await self._answered(call, checked_call)
            for call, checked_call in zip(calls, checked, strict=True)
        ]

    def _result(
        self, call: ToolCall, seen: str | CallFailed, seconds: float, max_tokens: int | None
    ) -> ToolResult:
        text, cause = (seen, Cause.OK) if isinstance(seen, str) else (seen.text, Cause.TOOL_ERROR)
        return ToolResult(call.id, self._readable(text, max_tokens), cause, seconds)

    async def mistaken(self, mistake: Mistake) -> str:
        if not self._instance.has("mistake"):
            return ""
        words, is_over = await self._ask("mistake", shapes.answer_of, mistake)
        self._is_over = self._is_over or is_over
        return self._readable(words) if words else ""

    async def _answered(self, call: ToolCall, refusal: ToolResult) -> ToolResult:
        """A refused call's result, in the environment's words if it has its own."""
        words = await self.mistaken(Mistake(refusal.cause, refusal.content, call=call))
        return replace(refusal, content=words, hint="") if words else refusal

    async def score(self) -> Mapping[str, float | str]:
        if not self._instance.has("score"):
            return {}
        return await self._ask("score", shapes.scores_of)

    async def _step(self, said: str | Sequence[ToolCall], num_calls: int) -> tuple[Any, ...]:
        with self._clock.running():
            observations, self._is_over = await self._ask(
                "step", lambda value: shapes.step_of(value, num_calls), said
            )
        return observations

    async def _ask(self, method: str, shaped: Callable[[Any], Shaped], *arguments: Any) -> Shaped:
        """Call a method and convert what it returns; a fault of the infrastructure is noted as a loss."""
        try:
            value = await self._instance.call(method, *arguments)
        except EnvironmentDown as error:
            self._losses.append(ServerLoss(self._name, str(error), is_state_lost=True))
            raise
        try:
            return shaped(value)
        except ValueError as error:
            raise self._instance.bug(method, str(error)) from None

    def _checked(self, call: ToolCall) -> ToolCall | ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return self._refused(call, Cause.UNKNOWN_TOOL, self._unknown(call.name))
        if not self._is_checking:
            return call
        try:
            return replace(call, arguments=self._as_checker(tool).check(call.arguments).arguments)
        except BadArguments as error:
            return self._refused(call, Cause.BAD_ARGUMENTS, str(error), error.hint)

    def _refused(self, call: ToolCall, cause: Cause, message: str, hint: str = "") -> ToolResult:
        text = self._readable(f"error: {message}")
        return ToolResult(call.id, text, cause, seconds=0.0, hint=self._readability.hint(hint))

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return f"unknown tool {name[:200]!r}; there are no tools: answer in words"
        near = difflib.get_close_matches(name[:200], self._tools, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the tools are {', '.join(self._tools)}"
        return f"unknown tool {name[:200]!r}; {hint}"

    def _readable(self, text: str, max_tokens: int | None = None) -> str:
        return self._readability.of(self._readability.sanitiser.clean(text), max_tokens)
