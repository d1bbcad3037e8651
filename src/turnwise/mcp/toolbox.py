"""Execute one turn's calls: checked, routed, retried, recorded, and returned in order."""

import asyncio
import difflib
import logging
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from turnwise.mcp.calls.arguments import ArgumentChecker, BadArguments, Checked
from turnwise.mcp.calls.cassette import CallKey, Cassette, History, Mode, NotRecorded, Recorded
from turnwise.mcp.calls.exhaustion import is_full
from turnwise.mcp.calls.gate import BreakerOpen
from turnwise.mcp.calls.results import Sanitiser, TokenCounter, cut, render
from turnwise.mcp.session import CallFailed, ConnectFailed, Session
from turnwise.mcp.supply import Holding
from turnwise.system.busy_clock import BusyClock
from turnwise.types import Cause, Fault, ServerLoss, Tool, ToolCall, ToolResult
from turnwise.types.protocols import TASK_ONLY

logger = logging.getLogger(__name__)

_RETRIED = {Cause.CLOSED, Cause.SPAWN_FAILED, Cause.BAD_REPLY}
"""Not TIMEOUT: each retry would cost the whole time-out. Not UPSTREAM: our servers retry providers."""

_INJECTED = (Cause.TIMEOUT, Cause.CLOSED, Cause.BAD_REPLY, Cause.UPSTREAM)

_BACKOFF_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Readability:
    """How results become the text that the model reads."""

    sanitiser: Sanitiser
    max_tokens: int
    count_tokens: TokenCounter

    def of(self, text: str, max_tokens: int | None = None) -> str:
        return cut(text, self.max_tokens if max_tokens is None else max_tokens, self.count_tokens)

    def hint(self, text: str) -> str:
        """The text; empty if it is too long, since half a hint misleads."""
        clean = self.sanitiser.clean(text)
        return clean if self.of(clean) == clean else ""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A call that may be made: its tool, its checked arguments, its key and index in the episode."""

    call: ToolCall
    tool: Tool
    checked: Checked
    key: CallKey
    index: int


@dataclass(frozen=True, slots=True)
class _Tried:
    """The outcome of a call: text, cause, whether it may be repeated, and the rest that the server wants."""

    text: str
    cause: Cause
    may_repeat: bool = False
    is_provable: bool = False
    """Whether the same fault of the same call on a fresh server proves it to be the model's."""
    rest_seconds: float | None = None
    num_rests: int = 0


@dataclass(frozen=True, slots=True)
class _Called:
    """The answer of a call, after its retries."""

    answer: Recorded
    num_retries: int = 0
    is_replayed: bool = False
    is_provable: bool = False


def injected_fault(key: CallKey, index: int, attempt: int, rate: float) -> Cause | None:
    """Return a fault for a share `rate` of the calls, the same ones in every run; None for the others."""
    if rate <= 0.0:
        return None
    draw = random.Random(f"{key.episode}\x00{index}\x00{attempt}\x00{key.tool}")  # noqa: S311 (a rehearsal)
    return draw.choice(_INJECTED) if draw.random() < rate else None


class LeasedToolbox:
    """One episode's tools for the duration of its lease; see `protocols.Toolbox`."""

    environment = TASK_ONLY

    def __init__(
        self,
        episode: str,
        tools: Sequence[Tool],
        checkers: Mapping[str, ArgumentChecker],
        holdings: Mapping[str, Holding],
        readability: Readability,
        cassette: Cassette | None,
        losses: list[ServerLoss],
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._checkers = checkers
        self._holdings = holdings
        self._readability = readability
        self._cassette = cassette
        self._losses = losses
        self._history = History(episode)
        self._only_replayed: dict[str, list[_Placed]] = {}
        self._clock = BusyClock()

    @property
    def tools(self) -> Sequence[Tool]:
        return tuple(self._tools.values())

    @property
    def losses(self) -> Sequence[ServerLoss]:
        return tuple(self._losses)

    @property
    def busy_seconds(self) -> float:
        return self._clock.seconds

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        """Make all calls of a turn concurrently; on one server, calls that may write keep their order."""
        results: dict[int, ToolResult] = {}
        lanes: dict[str, list[tuple[int, _Placed]]] = {}
        for position, call in enumerate(calls):
            placed = self._place(call)
            if isinstance(placed, ToolResult):
                results[position] = placed
            else:
                lanes.setdefault(placed.tool.server, []).append((position, placed))

        async def run(position: int, placed: _Placed) -> None:
            results[position] = await self._answer(placed, max_tokens)

        async def run_lane(lane: list[tuple[int, _Placed]]) -> None:
            for is_read_only, together in groupby(lane, key=lambda item: item[1].tool.is_read_only):
                if is_read_only:
                    async with asyncio.TaskGroup() as readers:
                        for position, placed in together:
                            readers.create_task(run(position, placed))
                else:
                    for position, placed in together:
                        await run(position, placed)

        if len(calls) == 1 and lanes:
            # The usual turn has one call, which needs no task.
            [[(position, placed)]] = lanes.values()
            await run(position, placed)
        else:
            async with asyncio.TaskGroup() as turn:
                for lane in lanes.values():
                    turn.create_task(run_lane(lane))
        return [results[position] for position in range(len(calls))]

    def _place(self, call: ToolCall) -> _Placed | ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return self._refuse(call, Cause.UNKNOWN_TOOL, self._unknown(call.name))
        try:
            checked = self._checkers[tool.name].check(call.arguments)
        except BadArguments as error:
            return self._refuse(call, Cause.BAD_ARGUMENTS, str(error), error.hint)
        key, index = self._history.place(tool, checked.arguments)
        return _Placed(call, tool, checked, key, index)

    def _refuse(self, call: ToolCall, cause: Cause, message: str, hint: str = "") -> ToolResult:
        text = self._readability.of(self._readability.sanitiser.clean(f"error: {message}"))
        return ToolResult(call.id, text, cause, seconds=0.0, hint=self._readability.hint(hint))

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name[:200], self._tools, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; the tools are {', '.join(self._tools)}"
        return f"unknown tool {name[:200]!r}{hint}"

    async def _answer(self, placed: _Placed, max_tokens: int | None) -> ToolResult:
        started = time.perf_counter()
        called = await self._replay_or_call(placed)
        answer, num_retries, is_replayed = called.answer, called.num_retries, called.is_replayed
        seconds = answer.seconds if is_replayed else time.perf_counter() - started
        logger.debug(
            "%s: %s %s in %.3f s, %d retries",
            placed.key.episode,
            placed.tool.name,
            answer.cause,
            seconds,
            num_retries,
        )
        return ToolResult(
            call_id=placed.call.id,
            content=self._readability.of(answer.content, max_tokens),
            cause=answer.cause,
            seconds=seconds,
            num_retries=num_retries,
            repairs=placed.checked.repairs,
            is_replayed=is_replayed,
            is_provable=called.is_provable,
        )

    async def _replay_or_call(self, placed: _Placed) -> _Called:
        cassette = self._cassette
        if cassette is not None and cassette.mode is not Mode.RECORD:
            try:
                answer = cassette.find(placed.key)
            except NotRecorded as error:
                if cassette.mode is Mode.REPLAY:
                    text = self._readability.sanitiser.clean(f"error: {error}")
                    return _Called(Recorded(text, Cause.NOT_RECORDED, 0.0))
            else:
                if not placed.tool.is_read_only:
                    self._only_replayed.setdefault(placed.tool.server, []).append(placed)
                return _Called(answer, is_replayed=True)
        failed = await self._catch_up(placed.tool.server)
        called = _Called(failed) if failed is not None else await self._call(placed)
        if cassette is not None:
            cassette.record(placed.key, placed.index, called.answer)
        return called

    async def _catch_up(self, server: str) -> Recorded | None:
        """Make the writing calls that were only replayed so far: a live call needs the state they left.

        Returns the first answer that is an infrastructure fault: later calls would find another state.
        """
        waiting = self._only_replayed.pop(server, [])
        for position, earlier in enumerate(waiting):
            answer = (await self._call(earlier)).answer
            if answer.cause.fault is Fault.INFRA:
                self._only_replayed[server] = waiting[position:]
                return answer
        return None

    async def _call(self, placed: _Placed) -> _Called:
        """Call the server, with retries if they are safe; every outcome becomes a recorded answer."""
        holding = self._holdings[placed.tool.server]
        started = time.perf_counter()
        options = holding.supply.spec.options
        num_rests = 0
        for num_retries in range(options.num_retries + 1):
            injected = injected_fault(placed.key, placed.index, num_retries, options.fault_rate)
            if injected is not None:
                tried = _Tried(f"injected fault: {injected}", injected, placed.tool.is_repeatable)
            else:
                tried = await self._try(placed, holding)
            num_rests += tried.num_rests
            is_last = num_retries == options.num_retries
            if is_last or tried.cause not in _RETRIED or holding.is_lost or not tried.may_repeat:
                break
            # Jitter: episodes that failed together must not retry together.
            await asyncio.sleep(_BACKOFF_SECONDS * 2**num_retries * random.uniform(0.5, 1.5))  # noqa: S311
        text = tried.text
        if tried.cause is not Cause.OK and not text.lower().startswith("error"):
            text = f"error: {text}"
        text = self._readability.sanitiser.clean(text)
        answer = Recorded(text, tried.cause, time.perf_counter() - started)
        return _Called(answer, num_retries + num_rests, is_provable=tried.is_provable)

    async def _try(self, placed: _Placed, holding: Holding) -> _Tried:
        """Make one try; repeat it after each rest that the server asks for, within `patience_seconds`."""
        supply = holding.supply
        until, num_rests = math.inf, 0
        while True:
            tried = await self._try_once(placed, holding)
            if tried.rest_seconds is not None:
                # The shortest rest grows: a server that always asks for 0 s is not called in a tight loop.
                supply.rest(max(tried.rest_seconds, _BACKOFF_SECONDS * 2 ** min(num_rests, 6)))
                until = min(until, time.monotonic() + supply.spec.options.patience_seconds)
                if tried.may_repeat and time.monotonic() + supply.gate.rest_seconds < until:
                    num_rests += 1
                    continue
            if tried.cause.fault is not Fault.INFRA:
                supply.gate.breaker.succeeded()
            elif tried.is_provable and tried.cause is not Cause.BAD_REPLY:
                # A fresh server or this one still answers: no reason to keep it from other episodes.
                supply.gate.breaker.withdrawn()
            elif tried.cause not in (Cause.BREAKER_OPEN, Cause.SPAWN_FAILED):  # not sent; already counted
                supply.gate.breaker.failed()
            may_repeat = tried.may_repeat and tried.rest_seconds is None
            return replace(tried, may_repeat=may_repeat, num_rests=num_rests)

    async def _try_once(self, placed: _Placed, holding: Holding) -> _Tried:
        tool = placed.tool
        try:
            async with holding.supply.gate.entered():
                session = await holding.usable()
                result, cause = await session.call(
                    tool.server_tool, placed.checked.arguments, episode=holding.episode, clock=self._clock
                )
                return _Tried(render(result), _judged(cause, tool, session), tool.is_repeatable)
        except BreakerOpen as error:
            return _Tried(f"server {tool.server!r} is not being called: {error}", Cause.BREAKER_OPEN)
        except ConnectFailed as error:
            return _Tried(str(error), Cause.SPAWN_FAILED, may_repeat=True)
        except CallFailed as error:
            if holding.spent:
                return _Tried(holding.spent, Cause.TOOL_ERROR)
            holding.note_death()
            may_repeat = tool.is_repeatable or not error.was_sent
            cause = _judged(error.cause, tool, holding.session)
            is_provable = cause is error.cause and _is_provable(error, holding)
            return _Tried(str(error), cause, may_repeat, is_provable, error.rest_seconds)


def _is_provable(error: CallFailed, holding: Holding) -> bool:
    """Return whether the same fault of the same call on a fresh server would prove it to be the model's.

    The death of a server proves nothing if others use it too, or if it works on real data: the first fault
    may have changed what the second call met.
    """
    if error.cause is Cause.UPSTREAM or (error.cause is Cause.TIMEOUT and error.is_alive):
        return True  # raised for a bug of our own server, not for a provider's failure
    if error.cause is Cause.BAD_REPLY:
        return not holding.supply.spec.is_remote
    return error.cause in (Cause.TIMEOUT, Cause.CLOSED) and holding.is_private


def _judged(cause: Cause, tool: Tool, session: Session) -> Cause:
    """Return UPSTREAM for an answer of a server on a full disk; some report errors as plain results."""
    may_be_full = cause is Cause.TOOL_ERROR or (cause is Cause.OK and not tool.is_read_only)
    return Cause.UPSTREAM if may_be_full and is_full(*session.disks) else cause
