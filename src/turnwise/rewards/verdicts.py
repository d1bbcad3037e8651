"""Explain an episode's success: what each message expected, what the model said, and which checks hold."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from turnwise.rewards.answer import answer_text
from turnwise.rewards.exchanges import exchanges_of
from turnwise.rewards.numbers import stated_number
from turnwise.rewards.outcome import CHECKS, OUTCOME, is_decidable
from turnwise.types import Matcher, Reward, Trajectory, Truth
from turnwise.types.protocols import RewardDown


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one user message."""

    expected: str | None
    """The expected answer as text; None if the truth has none."""
    said: str
    """The answer as it was read: a stated number if the answer is numeric, else the final text."""
    checks: Mapping[str, bool | None]
    """Whether each check of the message holds, in order; None if it could not be decided."""

    @property
    def failed(self) -> str:
        """The first check that does not hold; empty if all hold."""
        return next((name for name, holds in self.checks.items() if holds is False), "")


def verdicts_of(trajectory: Trajectory, reward: Reward) -> tuple[Verdict, ...]:
    """Return a verdict for every message of the task. Without `False` in any of them, nothing failed.

    If the environment or the reward's total decides success, this is the only check, on the last message.
    ValueError if the task's truth is malformed.
    """
    exchanges, truths = exchanges_of(trajectory), trajectory.task.truths
    if OUTCOME in trajectory.scores:
        decided: dict[str, bool | None] | None = {"environment": trajectory.scores[OUTCOME] >= 1.0}
    else:
        decided = None if is_decidable(trajectory.task) else {"reward": reward.total >= 1.0}
    verdicts = [
        Verdict(_expected(truth), _said(exchange), _checks(exchange) if decided is None else {})
        for exchange, truth in zip(exchanges, truths, strict=False)
    ]
    unsent = {} if decided is not None else {"sent": False}
    verdicts += [Verdict(_expected(truth), "", unsent) for truth in truths[len(verdicts) :]]
    if decided is not None:
        verdicts[-1] = Verdict(verdicts[-1].expected, verdicts[-1].said, decided)
    return tuple(verdicts)


def _checks(exchange: Trajectory) -> dict[str, bool | None]:
    """The checks that the truth asks for; the ending, which every task needs, also where it fails."""
    asked = _asked(exchange.task.truth)
    outcomes = {name: _holds(name, exchange) for name in CHECKS}
    return {name: holds for name, holds in outcomes.items() if name in asked or holds is not True}


def _holds(name: str, exchange: Trajectory) -> bool | None:
    try:
        return CHECKS[name](exchange)
    except RewardDown:
        return None


def _asked(truth: Truth) -> set[str]:
    asked = {
        "ending": bool(truth.ends_with),
        "answer": truth.answer is not None,
        "tools": bool(truth.required_tools or truth.min_tool_calls),
        "forbidden tools": bool(truth.forbidden_tools),
        "writes": truth.writes is not None,
        "probes": bool(truth.probes),
    }
    return {name for name, is_asked in asked.items() if is_asked}


def _expected(truth: Truth) -> str | None:
    if truth.answer is None:
        return None
    value, unit = truth.answer.value, truth.answer.unit.strip()
    if truth.answer.matcher is Matcher.ONE_OF and isinstance(value, list | tuple):
        return " or ".join(map(str, value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{text} {unit}" if unit else text


def _said(exchange: Trajectory) -> str:
    text, truth = answer_text(exchange), exchange.task.truth
    if truth.answer is not None and truth.answer.matcher is Matcher.NUMERIC:
        prompt = "\n".join(message.content for message in exchange.task.prompt)
        stated = stated_number(text, given=prompt)
        if stated is not None:
            return " ".join([f"{stated.value:.15g}", *sorted(stated.units)])
    return text
