"""Takes a seed, gives the embedded world: its market, its news and its searchable web."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.servers.embedded.library import Library
from turnwise.servers.embedded.market import Market
from turnwise.servers.embedded.news import Article
from turnwise.servers.embedded.store import (
    default_cache_dir,
    open_database,
    open_image,
    read_articles,
    read_market,
)


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is true for one seed."""

    seed: int
    market: Market
    articles: Sequence[Article]
    """Newest first."""
    library: Library


def open_world(seed: int, *, cache_dir: Path | None = None) -> World:
    """Read the world from the cache, or make it (about a second) and cache it where that is possible."""
    image = open_image(seed, cache_dir or default_cache_dir())
    database = open_database(image)
    return World(seed, read_market(database, seed), read_articles(database), Library(database))
