"""Several processes that train one policy: their ranks, their exchanges, and the launcher."""

from turnwise.system.ranks.ranks import (
    ALONE,
    Alone,
    Channel,
    RankFailed,
    Ranks,
    exchange_async,
    first_rank_value,
    first_reason,
    is_first,
)

__all__ = [
    "ALONE",
    "Alone",
    "Channel",
    "RankFailed",
    "Ranks",
    "exchange_async",
    "first_rank_value",
    "first_reason",
    "is_first",
]
