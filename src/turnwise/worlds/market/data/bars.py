"""Daily price bars of all companies, and their exact split into hours and minutes."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from turnwise.worlds.market.data.businesses import SECTORS
from turnwise.worlds.market.data.companies import Company, opening_cents
from turnwise.worlds.market.data.factors import market_factor, sector_factor
from turnwise.worlds.stream import Stream

COLUMNS = 5
"""Values per session in a flat array: open, high, low, close (cents) and volume."""

OPENING = time(9, 30)
HOURS = ((0, 30), *((30 + 60 * hour, 60) for hour in range(6)))
"""(Minutes after the opening, length in minutes): 09:30 to 10:00, then full hours to 16:00."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Prices in whole cents, or finer (`per_unit`), so that sums are exact; `start` is New York time."""

    start: datetime
    open_cents: int
    high_cents: int
    low_cents: int
    close_cents: int
    volume: int
    per_unit: int = field(default=100, repr=False)
    """Price units per dollar: 100 for cents; currency pairs and some others use a finer unit."""

    @property
    def day(self) -> date:
        return self.start.date()

    @property
    def open(self) -> float:
        return self.open_cents / self.per_unit

    @property
    def high(self) -> float:
        return self.high_cents / self.per_unit

    @property
    def low(self) -> float:
        return self.low_cents / self.per_unit

    @property
    def close(self) -> float:
        return self.close_cents / self.per_unit


@dataclass(frozen=True, slots=True)
class Course:
    """How a price moves: with the market (beta), with its sector, and on its own (spread)."""

    start: int
    """The price before the first session, in cents or the listing's own unit."""
    beta: float
    spread: float
    typical_volume: float
    sector: str
    usual: float = 0.0
    pull: float = 0.0
    """Fraction of the gap to the usual price that closes in one session; 0 for no pull."""


def make_daily(seed: int, companies: Sequence[Company]) -> Mapping[str, Sequence[int]]:
    """Return each company's sessions as a flat array; companies move with the market and their sector."""
    market = market_factor(seed)
    sectors = {sector: sector_factor(seed, sector) for sector in SECTORS}
    return {company.symbol: _walk(seed, company, market, sectors[company.sector]) for company in companies}


def bar_at(columns: Sequence[int], index: int, day: date, per_unit: int = 100) -> Bar:
    """Return one session of a flat array as a bar."""
    start = datetime.combine(day, OPENING)
    opening, high, low, close, volume = columns[index * COLUMNS : (index + 1) * COLUMNS]
    return Bar(start, opening, high, low, close, volume, per_unit)


def split_day(seed: int, symbol: str, day: Bar) -> list[Bar]:
    """Split a daily bar into its seven hourly bars."""
    spans = [(day.start + timedelta(minutes=start), length) for start, length in HOURS]
    return _split(day, spans, Stream(seed, "hours", symbol, day.day.isoformat()))


def split_hour(seed: int, symbol: str, hour: Bar) -> list[Bar]:
    """Split an hourly bar into its minute bars."""
    length = 30 if hour.start.time() == OPENING else 60
    spans = [(hour.start + timedelta(minutes=minute), 1) for minute in range(length)]
    return _split(hour, spans, Stream(seed, "minutes", symbol, hour.start.isoformat()))


def _walk(seed: int, company: Company, market: Sequence[float], sector: Sequence[float]) -> Sequence[int]:
    stream = Stream(seed, "daily", company.symbol)
    course = Course(
        beta=stream.between(0.5, 1.5),
        spread=stream.between(0.008, 0.026),
        typical_volume=company.shares * stream.between(0.003, 0.011),
        start=opening_cents(seed, company.symbol),
        sector=company.sector,
    )
    return follow(stream, course, market, sector)


def follow(stream: Stream, course: Course, market: Sequence[float], sector: Sequence[float]) -> Sequence[int]:
    """Return a bounded random walk: only products and sums of `random()`, so every machine gets the same."""
    unit, bell = stream.unit, stream.bell
    beta, spread, last = course.beta, course.spread, course.start
    columns = array("q")
    for common, shared in zip(market, sector, strict=True):
        move = beta * common + shared + spread * bell()
        if unit() < 0.015:
            move += 4.0 * spread * bell()
        if course.pull:
            move += course.pull * (course.usual / last - 1.0)
        # No halts, no penny stocks: a session moves by -18% to +22%, and a price below 300 units only rises.
        move = min(0.22, max(-0.18, move))
        if last < 300:
            move = abs(move)
        close = round(last * (1.0 + move))
        opening = round(last * (1.0 + move * 0.6 * unit() + 0.3 * spread * (unit() - 0.5)))
        high = round(max(opening, close) * (1.0 + 0.7 * spread * unit()))
        low = round(min(opening, close) * (1.0 - 0.7 * spread * unit()))
        volume = int(course.typical_volume * (0.55 + 0.9 * unit()) * (1.0 + 14.0 * abs(move)))
        columns.extend((opening, high, low, close, volume))
        last = close
    return columns


def _split(whole: Bar, spans: Sequence[tuple[datetime, int]], stream: Stream) -> list[Bar]:
    """Split a bar into parts whose open, high, low, close and volume aggregate exactly to it.

    The price walks from the open to the close within [low, high]. One part gets the high and one gets the
    low. Volume is divided into whole shares.
    """
    count = len(spans)
    closes = _bridge(whole, count, stream)
    peak, trough = stream.below(count), stream.below(count)
    volumes = _portions(whole.volume, [length for _, length in spans], stream)
    parts = []
    opening = whole.open_cents
    for index, ((start, _), close, volume) in enumerate(zip(spans, closes, volumes, strict=True)):
        top, bottom = max(opening, close), min(opening, close)
        high = top + int((whole.high_cents - top) * 0.35 * stream.unit())
        low = bottom - int((bottom - whole.low_cents) * 0.35 * stream.unit())
        high = whole.high_cents if index == peak else high
        low = whole.low_cents if index == trough else low
        parts.append(Bar(start, opening, high, low, close, volume, whole.per_unit))
        opening = close
    return parts


def _bridge(whole: Bar, count: int, stream: Stream) -> list[int]:
    span = whole.high_cents - whole.low_cents
    price: float = whole.open_cents
    closes = []
    for left in range(count, 1, -1):
        price += (whole.close_cents - price) / left + 0.45 * span * stream.bell() / count**0.5
        price = min(whole.high_cents, max(whole.low_cents, price))
        closes.append(round(price))
    return [*closes, whole.close_cents]


def _portions(volume: int, lengths: Sequence[int], stream: Stream) -> list[int]:
    weights = [length * int(600 + 800 * stream.unit()) for length in lengths]
    total = sum(weights)
    portions, weight_so_far, handed_out = [], 0, 0
    for weight in weights:
        weight_so_far += weight
        until = volume * weight_so_far // total
        portions.append(until - handed_out)
        handed_out = until
    return portions
