"""The embedded world of a seed: its market, its news and its searchable web."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.system.environment import user_folder
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.store import open_database, open_image, read_articles, read_market
from turnwise.worlds.market.web.library import Hit, Library, rank
from turnwise.worlds.market.web.listed_news import listed_articles
from turnwise.worlds.market.web.listed_pages import listed_pages
from turnwise.worlds.market.web.news import Article, about, newest_first
from turnwise.worlds.market.web.questions import listings_named


@dataclass(frozen=True, slots=True)
class World:
    """The market, news and web of one seed."""

    seed: int
    market: Market
    articles: Sequence[Article]
    """Newest first."""
    library: Library

    def news(self, symbols: Sequence[str]) -> list[Article]:
        """Return articles about the symbols, newest first; without symbols, about all invented companies."""
        listed = [self.market.listing(symbol) for symbol in symbols]
        own = [article for listing in listed if listing for article in listed_articles(self.market, listing)]
        articles = about(self.articles, symbols)
        return newest_first([*articles, *own]) if own else articles

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best pages, including those about the real listings that the query names."""
        hits = self.library.search(query, limit=limit)
        named = listings_named(self.market, query)
        if not named:
            return hits
        pages = [page for listing in named for page in listed_pages(self.market, listing)]
        return sorted([*rank(pages, query), *hits], key=lambda hit: -hit.score)[:limit]


def open_world(seed: int, *, cache_dir: Path | None = None) -> World:
    """Read the world from the cache, or generate it (about a second) and cache it if possible."""
    image = open_image(seed, cache_dir or user_folder("XDG_CACHE_HOME", "~/.cache"))
    database = open_database(image)
    return World(seed, read_market(database, seed), read_articles(database), Library(database))
