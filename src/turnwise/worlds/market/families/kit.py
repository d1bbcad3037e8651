"""What a family of tasks is: phrasings for each split, and cases drawn from the market and its channels."""

import functools
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

from turnwise.tasks.proof.case import Case
from turnwise.types import Difficulty
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market

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

    market: Market
    companies: Sequence[Company]
    channels: Sequence[SlackChannel]
    rng: random.Random

    def pick(self, items: Sequence[T]) -> T:
        """Return an item by `random()` alone, which is the same in every Python; LookupError if empty."""
        if not items:
            raise LookupError("nothing fits")
        return items[int(self.rng.random() * len(items))]

    def pick_two(self, items: Sequence[T]) -> tuple[T, T]:
        """Return two different items."""
        first = self.pick(items)
        return first, self.pick([item for item in items if item is not first])


Draft = Callable[[Material], Case]
"""Draws one case; LookupError if nothing fits."""


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one kind. The last phrasing is for test, the one before for validation, the rest for train."""

    name: str
    difficulty: Difficulty
    servers: tuple[str, ...]
    required_tools: tuple[str, ...]
    """Tools that the phrasings ask for: an answer given without calling them was guessed."""
    phrasings: tuple[str, ...]
    draft: Draft
    follow_ups: tuple[tuple[str, ...], ...] = ()
    """The phrasings of each further user message."""

    def phrasings_for(self, split: str) -> tuple[str, ...]:
        """Return one split's phrasings; splits share none, so that held-out wordings are not trained on."""
        return _of_split(self.phrasings, split)

    def follow_ups_for(self, split: str) -> tuple[tuple[str, ...], ...]:
        """Return one split's phrasings of each further message."""
        return tuple(_of_split(phrasings, split) for phrasings in self.follow_ups)


def families_of(drafts: Mapping[str, Draft]) -> dict[str, Family]:
    """Return the families of these names, with what families.toml says of each."""
    return {name: _family(name, draft, **_read_families()[name]) for name, draft in drafts.items()}


@functools.cache
def _read_families() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("families.toml").read_text(encoding="utf-8"))


def _family(
    name: str,
    draft: Draft,
    *,
    difficulty: str,
    servers: list[str],
    required_tools: list[str],
    phrasings: list[str],
    follow_ups: Sequence[list[str]] = (),
) -> Family:
    return Family(
        name=name,
        difficulty=Difficulty(difficulty),
        servers=tuple(servers),
        required_tools=tuple(required_tools),
        phrasings=tuple(phrasings),
        draft=draft,
        follow_ups=tuple(tuple(texts) for texts in follow_ups),
    )


def _of_split(phrasings: tuple[str, ...], split: str) -> tuple[str, ...]:
    return {"train": phrasings[:-2], "validation": phrasings[-2:-1], "test": phrasings[-1:]}[split]
