"""Carry out a task's reference plan with real tools and record the demonstration."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnwise.protocols import PROBE_TOKENS, Toolbox
from turnwise.tasks.family import Case, Conclusion
from turnwise.types import DemoTurn, Fault, StateProbe, ToolCall, ToolResult


class PlanFailed(Exception):
    """The plan cannot be executed as written, or its results lack what it reads from them."""


class ToolsDown(Exception):
    """A server failed: the plan is not at fault, and nothing can be verified without the server."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One execution of a plan, in one lease."""

    demonstration: tuple[DemoTurn, ...]
    conclusion: Conclusion
    probe_answers: tuple[ToolResult, ...] = ()
    """What the probes answered after the plan, if they were asked."""


async def follow(case: Case, toolbox: Toolbox) -> PlanRun:
    """Make the plan's calls turn by turn, and derive the conclusion from the results."""
    turns: list[DemoTurn] = []
    results: list[Any] = []
    number = 0
    for steps in case.turns:
        calls = []
        for step in steps:
            number += 1
            calls.append(ToolCall(f"call_{number}", step.tool, _read(step.arguments, results)))
        answers = await answers_to(calls, toolbox)
        results.extend(case.parse(answer.content) for answer in answers)
        # Durations and retries differ between runs; the task files must not.
        kept = tuple(replace(answer, seconds=0.0, num_retries=0) for answer in answers)
        turns.append(DemoTurn("", tuple(calls), kept))
    conclusion = _read(case.conclude, results)
    return PlanRun((*turns, DemoTurn(conclusion.text)), conclusion)


async def holds(probe: StateProbe, toolbox: Toolbox) -> bool:
    """Return whether the server's current answer is as the probe expects."""
    return all_hold([probe], await asked([probe], toolbox))


async def asked(probes: Sequence[StateProbe], toolbox: Toolbox) -> list[ToolResult]:
    """Return the answers to the probes, as an episode gets them; ToolsDown if a server fails."""
    calls = [ToolCall(f"probe.{number}", probe.tool, probe.arguments) for number, probe in enumerate(probes)]
    answers = await toolbox.call(calls, max_tokens=PROBE_TOKENS)
    _require_no_fault(calls, answers)
    return answers


def all_hold(probes: Sequence[StateProbe], answers: Sequence[ToolResult]) -> bool:
    return all(
        probe.accepts(answer.content, is_error=answer.is_error)
        for probe, answer in zip(probes, answers, strict=True)
    )


def changes(played: PlanRun, toolbox: Toolbox) -> list[ToolCall]:
    """Return the plan's calls to tools that are not read-only."""
    writers = {tool.name for tool in toolbox.tools if not tool.is_read_only}
    return [call for turn in played.demonstration for call in turn.calls if call.name in writers]


async def answers_to(calls: Sequence[ToolCall], toolbox: Toolbox) -> list[ToolResult]:
    """Return one turn's results; ToolsDown if a server fails, PlanFailed if a call does."""
    answers = await toolbox.call(calls)
    _require_no_fault(calls, answers)
    for call, answer in zip(calls, answers, strict=True):
        if answer.is_error:
            raise PlanFailed(f"{call.name} {json.dumps(dict(call.arguments))}: {answer.content}")
    return answers


def _require_no_fault(calls: Sequence[ToolCall], answers: Sequence[ToolResult]) -> None:
    for call, answer in zip(calls, answers, strict=True):
        if answer.fault is Fault.INFRA:
            raise ToolsDown(f"{call.name}: {answer.content}")


def _read(function: Any, results: Sequence[Any]) -> Any:
    """Apply a plan's function to the results; PlanFailed if they lack what it reads."""
    try:
        return function(results)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PlanFailed(f"the results do not fit: {type(error).__name__}: {error}") from error
