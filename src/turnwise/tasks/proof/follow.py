"""Carry out a task's reference plan with real tools and record the demonstration."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnwise.tasks.proof.case import Case, Conclusion
from turnwise.types import DemoTurn, Fault, StateProbe, ToolCall, ToolResult
from turnwise.types.protocols import PROBE_TOKENS, Toolbox


class PlanFailed(Exception):
    """The plan cannot be executed as written, or its results lack what it reads from them."""


class ToolsDown(Exception):
    """A server failed: the plan is not at fault, and nothing can be verified without the server."""


@dataclass(frozen=True, slots=True)
class ExchangeRun:
    """What the plan did for one user message: its turns, the last of which is the answer."""

    turns: tuple[DemoTurn, ...]
    conclusion: Conclusion


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One execution of a plan, in one lease."""

    exchanges: tuple[ExchangeRun, ...]
    probe_answers: tuple[ToolResult, ...] = ()
    """What the probes answered after the plan, if they were asked."""

    @property
    def demonstration(self) -> tuple[DemoTurn, ...]:
        """The turns of all exchanges."""
        return tuple(turn for exchange in self.exchanges for turn in exchange.turns)

    @property
    def conclusions(self) -> tuple[Conclusion, ...]:
        """The conclusion of each exchange."""
        return tuple(exchange.conclusion for exchange in self.exchanges)

    @property
    def conclusion(self) -> Conclusion:
        """That of the prompt, which is the only one without further messages."""
        return self.exchanges[0].conclusion


async def follow(case: Case, toolbox: Toolbox) -> PlanRun:
    """Make the plan's calls turn by turn, and derive the conclusions from the results."""
    return PlanRun(tuple([exchange async for exchange in exchanges_of(case, toolbox)]))


async def exchanges_of(case: Case, toolbox: Toolbox) -> AsyncIterator[ExchangeRun]:
    """Yield the exchanges of a plan; the state of the servers can be read between them."""
    results: list[Any] = []
    for exchange in case.exchanges:
        turns = [DemoTurn(exchange.question.text)] if exchange.question is not None else []
        for steps in exchange.turns:
            first = len(results) + 1
            calls = [
                ToolCall(f"call_{number}", step.tool, _read(step.arguments, results))
                for number, step in enumerate(steps, first)
            ]
            answers = await answers_to(calls, toolbox, [step.is_refused for step in steps])
            results.extend(case.parse(answer.content) for answer in answers)
            # Durations and retries differ between runs; the task files must not.
            kept = tuple(replace(answer, seconds=0.0, num_retries=0) for answer in answers)
            turns.append(DemoTurn("", tuple(calls), kept))
        conclusion = _read(exchange.conclude, results)
        yield ExchangeRun((*turns, DemoTurn(conclusion.text)), conclusion)


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


def changes(played: ExchangeRun, toolbox: Toolbox) -> list[ToolCall]:
    """Return the exchange's calls to tools that are not read-only, without those that were refused."""
    writers = {tool.name for tool in toolbox.tools if not tool.is_read_only}
    return [
        call
        for turn in played.turns
        for call, result in zip(turn.calls, turn.results, strict=True)
        if call.name in writers and not result.is_error
    ]


async def answers_to(
    calls: Sequence[ToolCall], toolbox: Toolbox, are_refused: Sequence[bool] = ()
) -> list[ToolResult]:
    """Return one turn's results; ToolsDown if a server fails, PlanFailed if a call does.

    `are_refused`: for each call whether it must fail instead; without it none may.
    """
    answers = await toolbox.call(calls)
    _require_no_fault(calls, answers)
    for call, answer, is_refused in zip(calls, answers, are_refused or (False,) * len(calls), strict=True):
        if answer.is_error is not is_refused:
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
