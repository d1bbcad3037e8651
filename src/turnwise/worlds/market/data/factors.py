"""The moves that shares have in common: the market's in each session, and each sector's."""

import functools
from collections.abc import Sequence

from turnwise.worlds.market.data.sessions import SESSIONS
from turnwise.worlds.stream import Stream


@functools.lru_cache(maxsize=4)
def market_factor(seed: int) -> Sequence[float]:
    """Return the market's relative move in each of `SESSIONS`."""
    return _factor(Stream(seed, "factor", "market"), len(SESSIONS), drift=0.0003, spread=0.007)


@functools.lru_cache(maxsize=48)
def sector_factor(seed: int, sector: str) -> Sequence[float]:
    """Return a sector's move in each of `SESSIONS`, on top of the market's; zeros for an empty sector."""
    if not sector:
        return (0.0,) * len(SESSIONS)
    return _factor(Stream(seed, "factor", sector), len(SESSIONS), drift=0.0, spread=0.005)


@functools.lru_cache(maxsize=48)
def past_factor(seed: int, name: str, count: int) -> Sequence[float]:
    """Return the market's or a sector's moves in `count` sessions before `SESSIONS`, latest first.

    The order is reversed because prices walk these sessions backwards.
    """
    if not name:
        return (0.0,) * count
    spread = 0.007 if name == "market" else 0.005
    return _factor(Stream(seed, "past factor", name), count, drift=-0.0002, spread=spread)


def _factor(stream: Stream, count: int, *, drift: float, spread: float) -> Sequence[float]:
    return [drift + spread * stream.bell() for _ in range(count)]
