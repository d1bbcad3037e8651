"""Several processes that train one policy: their places, what they exchange, and how they are started."""

from turnwise.distributed.ranks import ALONE, Alone, RankFailed, Ranks

__all__ = ["ALONE", "Alone", "RankFailed", "Ranks"]
