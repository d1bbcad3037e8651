"""The world as an SQLite image, generated once and then read from the cache directory."""

import dataclasses
import hashlib
import json
import logging
import os
import sqlite3
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market, make_market
from turnwise.worlds.market.data.statements import IncomeStatement
from turnwise.worlds.market.web.documents import make_pages
from turnwise.worlds.market.web.library import write_pages
from turnwise.worlds.market.web.news import Article, make_articles

logger = logging.getLogger(__name__)

T = TypeVar("T")

WORLD_VERSION = 1
"""Increase it with every change to what a seed generates: it names the cache file (a test pins both)."""

SCHEMA = """
CREATE TABLE company (symbol TEXT PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE daily (symbol TEXT PRIMARY KEY, columns BLOB NOT NULL);
CREATE TABLE quarters (symbol TEXT PRIMARY KEY, statements TEXT NOT NULL);
CREATE TABLE article (number INTEGER PRIMARY KEY, facts TEXT NOT NULL);
"""


def open_image(seed: int, cache_dir: Path | None) -> bytes:
    """Return the world's SQLite image, from the cache if it is there and intact."""
    if cache_dir is None:
        return make_image(seed)
    path = cache_dir / f"world-{WORLD_VERSION}-{seed}.db"
    image = _read(path)
    if image is None:
        image = make_image(seed)
        _write(path, image)
    return image


def make_image(seed: int) -> bytes:
    """Generate the world and write it as a SQLite database in memory."""
    market = make_market(seed)
    articles = make_articles(market)
    database = sqlite3.connect(":memory:")
    try:
        with database:
            _fill(database, market, articles)
        return database.serialize()
    finally:
        database.close()


def open_database(image: bytes) -> sqlite3.Connection:
    """Return a private in-memory copy of the image: no file stays open, and writes are not kept."""
    # One event loop uses it, but not always in the thread that opened it.
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.deserialize(image)
    return database


def read_market(database: sqlite3.Connection, seed: int) -> Market:
    """Return the market in an image; bars and statements are read when a company is first used."""
    rows = database.execute("SELECT facts FROM company ORDER BY symbol")
    companies = [_company(json.loads(facts)) for (facts,) in rows]
    return Market(
        seed,
        companies,
        _Lazy(database, "SELECT columns FROM daily WHERE symbol = ?", _columns),
        _Lazy(database, "SELECT statements FROM quarters WHERE symbol = ?", _statements),
    )


def read_articles(database: sqlite3.Connection) -> tuple[Article, ...]:
    """Return all articles in an image, newest first."""
    rows = database.execute("SELECT facts FROM article ORDER BY number")
    return tuple(_article(json.loads(facts)) for (facts,) in rows)


class _Lazy(Mapping[str, T]):
    """A mapping of symbols to decoded values, each of which is read once."""

    def __init__(self, database: sqlite3.Connection, query: str, decode: Callable[[Any], T]) -> None:
        self._database = database
        self._query = query
        self._decode = decode
        self._known: dict[str, T] = {}

    def __getitem__(self, symbol: str) -> T:
        if symbol not in self._known:
            row = self._database.execute(self._query, (symbol,)).fetchone()
            if row is None:
                raise KeyError(symbol)
            self._known[symbol] = self._decode(row[0])
        return self._known[symbol]

    def __iter__(self) -> Iterator[str]:
        return (symbol for (symbol,) in self._database.execute("SELECT symbol FROM company ORDER BY symbol"))

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM company").fetchone()[0]
        return count


def _fill(database: sqlite3.Connection, market: Market, articles: tuple[Article, ...]) -> None:
    database.executescript(SCHEMA)
    for company in market.companies():
        symbol = company.symbol
        # Stored oldest first, as `make_quarters` returns them.
        quarters = [dataclasses.asdict(quarter) for quarter in reversed(market.quarters(symbol))]
        database.execute("INSERT INTO company VALUES (?, ?)", (symbol, _json(dataclasses.asdict(company))))
        database.execute("INSERT INTO daily VALUES (?, ?)", (symbol, _blob(market.columns(symbol))))
        database.execute("INSERT INTO quarters VALUES (?, ?)", (symbol, _json(quarters)))
    database.executemany(
        "INSERT INTO article VALUES (?, ?)",
        ((number, _json(dataclasses.asdict(article))) for number, article in enumerate(articles)),
    )
    write_pages(database, make_pages(market, articles))


def _read(path: Path) -> bytes | None:
    """Read a cache file, which is the SHA-256 of the image and the image; None if missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    image = content[32:]
    if hashlib.sha256(image).digest() != content[:32]:
        logger.warning("%s is damaged and will be made again", path)
        return None
    return image


def _write(path: Path, image: bytes) -> None:
    """Write atomically: processes that make the same world at once replace the file by an equal one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".world-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(image).digest() + image)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        logger.info("the embedded world is kept in memory only: %s", error)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_iso)


def _iso(value: date | datetime) -> str:
    return value.isoformat()


def _blob(columns: Sequence[int]) -> bytes:
    numbers = array("q", columns)
    if sys.byteorder == "big":
        numbers.byteswap()
    return bytes(numbers)


def _columns(blob: bytes) -> Sequence[int]:
    numbers = array("q")
    numbers.frombytes(blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _company(facts: dict[str, Any]) -> Company:
    listed_on = date.fromisoformat(facts.pop("listed_on"))
    return Company(**{**facts, "products": tuple(facts["products"]), "listed_on": listed_on})


def _statements(text: str) -> list[IncomeStatement]:
    return [
        IncomeStatement(**{**facts, "ends_on": date.fromisoformat(facts["ends_on"])})
        for facts in json.loads(text)
    ]


def _article(facts: dict[str, Any]) -> Article:
    published = datetime.fromisoformat(facts["published"])
    return Article(**{**facts, "published": published, "tickers": tuple(facts["tickers"])})
