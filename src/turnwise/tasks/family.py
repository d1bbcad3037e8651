"""What a family of tasks is: phrasings for each split, and cases whose plan the tools can carry out."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from turnwise.tasks.facts import CompanyFacts, MarketFacts
from turnwise.types import Answer, Difficulty, ExpectedWrite, Matcher, StateProbe

T = TypeVar("T")

SPLITS = ("train", "validation", "test")

HISTORY_LIMIT = 50
"""Messages read of a channel: more than any of the embedded workspace holds."""

Results = Sequence[Any]
"""What the calls so far gave, in order, read as JSON where it is JSON."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of a plan; its arguments may depend on what earlier calls gave."""

    tool: str
    arguments: Callable[[Results], Mapping[str, Any]]


def call(tool: str, /, **arguments: Any) -> PlanStep:
    """A step whose arguments are known from the start."""
    return PlanStep(tool, lambda _: arguments)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a plan's results come to: the answer, how it is said, and what must have been changed."""

    answer: Answer
    text: str
    writes: tuple[ExpectedWrite, ...] = ()
    probes: tuple[StateProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One task of a family before it is verified."""

    words: Mapping[str, str]
    """What fills the phrasing."""
    form: str
    """How to answer: short, so that it can be checked."""
    turns: tuple[tuple[PlanStep, ...], ...]
    """The plan: the calls of each turn."""
    conclude: Callable[[Results], Conclusion]
    known: str | float | None = None
    """The answer as the world itself has it, without the tools; None where only the tools can tell."""


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A Slack channel as the tools show it to a fresh episode."""

    id: str
    name: str
    texts: tuple[str, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a case may be drawn from: the companies of one split, and chance."""

    market: MarketFacts
    companies: Sequence[CompanyFacts]
    channels: Sequence[SlackChannel]
    chance: random.Random

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, by `random()` alone, which every Python gives alike; none fits: LookupError."""
        if not items:
            raise LookupError("nothing fits")
        return items[int(self.chance.random() * len(items))]

    def pick_two(self, items: Sequence[T]) -> tuple[T, T]:
        """Two different ones."""
        first = self.pick(items)
        return first, self.pick([item for item in items if item is not first])


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one kind. The last phrasing is for test, the one before for validation, the rest to train."""

    name: str
    difficulty: Difficulty
    servers: tuple[str, ...]
    required_tools: tuple[str, ...]
    """The tools that the phrasings themselves ask for: an answer without them was guessed."""
    phrasings: tuple[str, ...]
    draft: Callable[[Material], Case]

    def phrasings_for(self, split: str) -> tuple[str, ...]:
        """Disjoint over the splits, so that no held-out wording was trained on."""
        return {
            "train": self.phrasings[:-2],
            "validation": self.phrasings[-2:-1],
            "test": self.phrasings[-1:],
        }[split]


def split_of(symbol: str) -> str:
    """The split a company belongs to: 70, 15 and 15 of 100, by its symbol alone."""
    share = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:4], "big") % 100
    return "train" if share < 70 else "validation" if share < 85 else "test"


# --- answers -----------------------------------------------------------------------------------------------

NUMBER = "Answer with the number only."
TWO_DECIMALS = "Answer with the number only, rounded to two decimals."


def looked_up(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """A number as a tool gives it: right only to half of its last place."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 0.5 * 10**-decimals), unit)


def computed(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """A number that was rounded after a calculation: the last place may fall either way."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 1.05 * 10**-decimals), unit)


def _tolerance(value: float, distance: float) -> float:
    """The distance as `Answer.tolerance` counts it: a share of the value, or absolute within ±1."""
    return float(f"{distance / max(1.0, abs(value)):.3g}")


def is_clear(value: float) -> bool:
    """Whether two decimals of a value are the same however it was computed, and are not zero."""
    return abs(abs(value) * 100 % 1 - 0.5) > 0.02 and abs(value) >= 0.01


def plain(value: float) -> str:
    """A number as JSON writes it."""
    return json.dumps(value)


# --- reading results ---------------------------------------------------------------------------------------


def row_where(rows: Sequence[Mapping[str, Any]], key: str, value: object) -> Mapping[str, Any]:
    """The first row with this value; a result without it is a LookupError."""
    for row in rows:
        if row[key] == value:
            return row
    raise LookupError(f"no row has {key} {value!r}")


def found(pattern: str, text: str) -> str:
    """The first group of the first match; no match is a LookupError."""
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"nothing in the text fits {pattern!r}")
    return match[1]


def printed(result: Mapping[str, Any]) -> str:
    """What Python code printed."""
    text: str = result["stdout"]
    return text.strip()
