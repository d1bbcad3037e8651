"""What a family of tasks is: phrasings for each split, and cases whose plan the tools can carry out."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from turnwise.tasks.facts import CompanyFacts, MarketFacts
from turnwise.types import Answer, Difficulty, ExpectedWrite, Matcher, StateProbe, UserRule

T = TypeVar("T")

SPLITS = ("train", "validation", "test")

HISTORY_LIMIT = 50
"""Number of messages read from a channel: more than any channel of the embedded workspace holds."""

Results = Sequence[Any]
"""Results of the calls so far, in order, as `Case.parse` returns them."""


def parsed_json(content: str) -> Any:
    """Return the data of a JSON text, or the text itself if it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return content


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of a plan; its arguments may depend on the results of earlier calls."""

    tool: str
    arguments: Callable[[Results], Mapping[str, Any]]


def call(tool: str, /, **arguments: Any) -> PlanStep:
    """Return a step with fixed arguments."""
    return PlanStep(tool, lambda _: arguments)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The outcome of a plan: the answer, the text that states it, and the changes that must be made."""

    answer: Answer
    text: str
    writes: tuple[ExpectedWrite, ...] = ()
    probes: tuple[StateProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What the plan asks the user before its first call, and when a scripted user replies to such a text."""

    text: str
    rule: UserRule


@dataclass(frozen=True, slots=True)
class Exchange:
    """The plan for one user message; results are those of all calls since the first message."""

    form: str
    """The instruction on how to answer: briefly, so that the answer can be checked."""
    turns: tuple[tuple[PlanStep, ...], ...]
    """The plan: the calls of each turn."""
    conclude: Callable[[Results], Conclusion]
    known: str | float | None = None
    """The answer according to the world itself, without the tools; None if only the tools have it."""
    required_tools: tuple[str, ...] = ()
    """As `Family.required_tools`, for a further message."""
    tools: tuple[str, ...] | None = None
    """Shell patterns of the tools offered from this message on; None: as before."""
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One task of a family before verification: the plan for its prompt, and for further messages."""

    words: Mapping[str, str]
    """Values for the placeholders in the phrasings of all messages."""
    form: str
    turns: tuple[tuple[PlanStep, ...], ...]
    conclude: Callable[[Results], Conclusion]
    known: str | float | None = None
    parse: Callable[[str], Any] = parsed_json
    """Turns the text of a result into what `turns` and `conclude` read."""
    tools: tuple[str, ...] | None = None
    question: Question | None = None
    later: tuple[Exchange, ...] = ()
    """One for each further message of the family."""
    guesses: tuple["Case", ...] = ()
    """Cases with the same prompt whose plans guess what this one asks the user; they must earn nothing."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The plan for the prompt, then those for the further messages."""
        first = Exchange(
            self.form, self.turns, self.conclude, self.known, tools=self.tools, question=self.question
        )
        return (first, *self.later)


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A Slack channel as the tools show it to a fresh episode."""

    id: str
    name: str
    texts: tuple[str, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a case is drawn from: a market, one split's companies, the channels, a random generator."""

    market: MarketFacts
    companies: Sequence[CompanyFacts]
    channels: Sequence[SlackChannel]
    chance: random.Random

    def pick(self, items: Sequence[T]) -> T:
        """Return an item by `random()` alone, which is the same in every Python; LookupError if empty."""
        if not items:
            raise LookupError("nothing fits")
        return items[int(self.chance.random() * len(items))]

    def pick_two(self, items: Sequence[T]) -> tuple[T, T]:
        """Return two different items."""
        first = self.pick(items)
        return first, self.pick([item for item in items if item is not first])


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one kind. The last phrasing is for test, the one before for validation, the rest for train."""

    name: str
    difficulty: Difficulty
    servers: tuple[str, ...]
    required_tools: tuple[str, ...]
    """Tools that the phrasings ask for: an answer given without calling them was guessed."""
    phrasings: tuple[str, ...]
    draft: Callable[[Material], Case]
    follow_ups: tuple[tuple[str, ...], ...] = ()
    """The phrasings of each further user message."""

    def phrasings_for(self, split: str) -> tuple[str, ...]:
        """Return one split's phrasings; splits share none, so that held-out wordings are not trained on."""
        return _of_split(self.phrasings, split)

    def follow_ups_for(self, split: str) -> tuple[tuple[str, ...], ...]:
        """Return one split's phrasings of each further message."""
        return tuple(_of_split(phrasings, split) for phrasings in self.follow_ups)


def _of_split(phrasings: tuple[str, ...], split: str) -> tuple[str, ...]:
    return {"train": phrasings[:-2], "validation": phrasings[-2:-1], "test": phrasings[-1:]}[split]


def split_of(symbol: str) -> str:
    """Return a company's split, by a hash of its symbol: 70 % train, 15 % validation, 15 % test."""
    share = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:4], "big") % 100
    return "train" if share < 70 else "validation" if share < 85 else "test"


# --- answers -----------------------------------------------------------------------------------------------

NUMBER = "Answer with the number only."
TWO_DECIMALS = "Answer with the number only, rounded to two decimals."


def looked_up(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """Return the answer for a number copied from a tool: within half a unit of its last decimal."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 0.5 * 10**-decimals), unit)


def computed(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """Return the answer for a rounded result of a calculation: the last decimal may be off by one."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 1.05 * 10**-decimals), unit)


def _tolerance(value: float, distance: float) -> float:
    """Convert an absolute distance to `Answer.tolerance`: relative to the value, absolute within ±1."""
    return float(f"{distance / max(1.0, abs(value)):.3g}")


def is_clear(value: float) -> bool:
    """Return whether the value rounds to the same two decimals however it is computed, and not to zero."""
    return abs(abs(value) * 100 % 1 - 0.5) > 0.02 and abs(value) >= 0.01


def plain(value: float) -> str:
    """Return a number as JSON text."""
    return json.dumps(value)


# --- reading results ---------------------------------------------------------------------------------------


def row_where(rows: Sequence[Mapping[str, Any]], key: str, value: object) -> Mapping[str, Any]:
    """Return the first row with this value; LookupError if there is none."""
    for row in rows:
        if row[key] == value:
            return row
    raise LookupError(f"no row has {key} {value!r}")


def found(pattern: str, text: str) -> str:
    """Return the first group of the first match; LookupError if nothing matches."""
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"nothing in the text fits {pattern!r}")
    return match[1]


def printed(result: Mapping[str, Any]) -> str:
    """Return what the Python code printed."""
    text: str = result["stdout"]
    return text.strip()
