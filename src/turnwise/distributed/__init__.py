"""Several processes that train one policy: their places, what they exchange, and how they are started."""

from turnwise.distributed.ranks import ALONE, Alone, Channel, RankFailed, Ranks, exchanged, is_first, of_first

__all__ = ["ALONE", "Alone", "Channel", "RankFailed", "Ranks", "exchanged", "is_first", "of_first"]
