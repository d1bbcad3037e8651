"""Builds the trajectory of an episode from what the model said and did."""

from collections.abc import Sequence
from typing import Any

from turnwise.types import (
    Cause,
    Completion,
    Finish,
    FormatError,
    FormatErrorKind,
    Message,
    Parsed,
    ProbeResult,
    ServerLoss,
    Stop,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Truth,
    Turn,
)

QUOTE, HISTORY, POST, STORE = "get_quote", "get_history", "post_message", "store_value"

TOOLS = (
    Tool(QUOTE, "", {"properties": {"symbol": {}}}, "market", QUOTE, is_read_only=True),
    Tool(HISTORY, "", {"properties": {"channel": {}}}, "chat", HISTORY, is_read_only=True),
    Tool(
        POST,
        "",
        {"properties": {"channel": {}, "message": {}, "priority": {"default": 3}}},
        "chat",
        POST,
    ),
    Tool(STORE, "", {"properties": {"key": {}, "value": {}}}, "store", STORE, is_idempotent=True),
)


def completion() -> Completion:
    return Completion((1, 2), (-0.5, -0.5), Finish.STOP, 0)


def did(
    tool: str, content: str = "ok", cause: Cause = Cause.OK, repairs: tuple[str, ...] = (), **arguments: Any
) -> Turn:
    """A turn of one call and its result."""
    call = ToolCall("0", tool, arguments)
    result = ToolResult("0", content, cause, seconds=0.01, repairs=repairs)
    return Turn((), completion(), Parsed(calls=(call,)), (result,))


def together(*turns: Turn) -> Turn:
    """The calls of several turns in one."""
    calls = tuple(call for turn in turns for call in turn.parsed.calls)
    return Turn(
        (), completion(), Parsed(calls=calls), tuple(result for turn in turns for result in turn.results)
    )


def said(text: str, reasoning: str = "") -> Turn:
    """A final message."""
    return Turn((), completion(), Parsed(text=text, reasoning=reasoning))


def garbled(kind: FormatErrorKind = FormatErrorKind.BAD_JSON, text: str = "") -> Turn:
    """A turn that was neither a call nor an answer."""
    return Turn((), completion(), Parsed(text=text, error=FormatError(kind, "not a call")))


def task_of(truth: Truth, *, prompt: str = "What is it?", max_turns: int = 5) -> Task:
    return Task("t1", (Message("user", prompt),), ("market", "chat"), truth, max_turns=max_turns)


def episode(
    truth: Truth,
    *turns: Turn,
    stop: Stop = Stop.ANSWERED,
    tools: Sequence[Tool] = TOOLS,
    state: str = "",
    losses: tuple[ServerLoss, ...] = (),
    prompt: str = "What is it?",
    max_turns: int = 5,
) -> Trajectory:
    """An episode; `state` is what every probe found."""
    return Trajectory(
        task=task_of(truth, prompt=prompt, max_turns=max_turns),
        episode_id="t1/0.0",
        seed=0,
        turns=turns,
        stop=stop,
        tools=tuple(tools),
        probes=tuple(ProbeResult(probe, state, is_error=False) for probe in truth.probes),
        losses=losses,
    )
