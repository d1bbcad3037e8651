"""What a family of tasks is: phrasings for each split, and cases drawn from the market and its channels."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from turnwise.tasks.proof.case import Case
from turnwise.types import Difficulty
from turnwise.worlds.market.families.facts import CompanyFacts, MarketFacts

T = TypeVar("T")

HISTORY_LIMIT = 50
"""Number of messages read from a channel: more than any channel of the embedded workspace holds."""


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
