"""Takes the companies, gives their daily bars, and splits a day into hours and minutes that add up to it."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from turnwise.servers.embedded.businesses import SECTORS
from turnwise.servers.embedded.companies import Company, opening_cents
from turnwise.servers.embedded.sessions import SESSIONS
from turnwise.servers.embedded.stream import Stream

COLUMNS = 5
"""Open, high, low, close (cents) and volume of one session, one after another in a flat array."""

OPENING = time(9, 30)
HOURS = ((0, 30), *((30 + 60 * hour, 60) for hour in range(6)))
"""Start in minutes after the opening, and length: 09:30 to 10:00, then on the clock's hours to 16:00."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Prices in cents, so that sums and comparisons are exact; `start` is New York time."""

    start: datetime
    open_cents: int
    high_cents: int
    low_cents: int
    close_cents: int
    volume: int

    @property
    def day(self) -> date:
        return self.start.date()

    @property
    def open(self) -> float:
        return self.open_cents / 100

    @property
    def high(self) -> float:
        return self.high_cents / 100

    @property
    def low(self) -> float:
        return self.low_cents / 100

    @property
    def close(self) -> float:
        return self.close_cents / 100


def make_daily(seed: int, companies: Sequence[Company]) -> Mapping[str, Sequence[int]]:
    """Every company's sessions as a flat array; the market and the sectors move their members together."""
    market = _factor(Stream(seed, "factor", "market"), drift=0.0003, spread=0.007)
    sectors = {sector: _factor(Stream(seed, "factor", sector), drift=0.0, spread=0.005) for sector in SECTORS}
    return {company.symbol: _walk(seed, company, market, sectors[company.sector]) for company in companies}


def bar_at(columns: Sequence[int], index: int) -> Bar:
    """One session of a company's flat array."""
    start = datetime.combine(SESSIONS[index], OPENING)
    return Bar(start, *columns[index * COLUMNS : (index + 1) * COLUMNS])


def split_day(seed: int, symbol: str, day: Bar) -> list[Bar]:
    """The seven hourly bars of a daily bar."""
    spans = [(day.start + timedelta(minutes=start), length) for start, length in HOURS]
    return _split(day, spans, Stream(seed, "hours", symbol, day.day.isoformat()))


def split_hour(seed: int, symbol: str, hour: Bar) -> list[Bar]:
    """The minute bars of an hourly bar."""
    length = 30 if hour.start.time() == OPENING else 60
    spans = [(hour.start + timedelta(minutes=minute), 1) for minute in range(length)]
    return _split(hour, spans, Stream(seed, "minutes", symbol, hour.start.isoformat()))


def _factor(stream: Stream, *, drift: float, spread: float) -> list[float]:
    return [drift + spread * stream.bell() for _ in SESSIONS]


def _walk(seed: int, company: Company, market: Sequence[float], sector: Sequence[float]) -> Sequence[int]:
    """A bounded random walk; only products and sums of `random()`, so it is the same on every machine."""
    stream = Stream(seed, "daily", company.symbol)
    unit, bell = stream.unit, stream.bell
    beta = stream.between(0.5, 1.5)
    spread = stream.between(0.008, 0.026)
    typical_volume = company.shares * stream.between(0.003, 0.011)
    last = opening_cents(seed, company.symbol)
    columns = array("q")
    for common, shared in zip(market, sector, strict=True):
        move = beta * common + shared + spread * bell()
        if unit() < 0.015:
            move += 4.0 * spread * bell()
        # No halts, no penny stocks: a session moves within -18% and +22%, and a cheap share recovers.
        move = min(0.22, max(-0.18, move))
        if last < 300:
            move = abs(move)
        close = round(last * (1.0 + move))
        opened = round(last * (1.0 + move * 0.6 * unit() + 0.3 * spread * (unit() - 0.5)))
        high = round(max(opened, close) * (1.0 + 0.7 * spread * unit()))
        low = round(min(opened, close) * (1.0 - 0.7 * spread * unit()))
        volume = int(typical_volume * (0.55 + 0.9 * unit()) * (1.0 + 14.0 * abs(move)))
        columns.extend((opened, high, low, close, volume))
        last = close
    return columns


def _split(whole: Bar, spans: Sequence[tuple[datetime, int]], stream: Stream) -> list[Bar]:
    """Parts whose open, high, low, close and volume aggregate exactly to the whole.

    The price walks from the whole's open to its close inside [low, high]; one part is given the high and one
    the low; volume is cut at whole shares.
    """
    count = len(spans)
    closes = _bridge(whole, count, stream)
    peak, trough = stream.below(count), stream.below(count)
    volumes = _portions(whole.volume, [length for _, length in spans], stream)
    parts = []
    opened = whole.open_cents
    for index, ((start, _), close, volume) in enumerate(zip(spans, closes, volumes, strict=True)):
        top, bottom = max(opened, close), min(opened, close)
        high = top + int((whole.high_cents - top) * 0.35 * stream.unit())
        low = bottom - int((bottom - whole.low_cents) * 0.35 * stream.unit())
        high = whole.high_cents if index == peak else high
        low = whole.low_cents if index == trough else low
        parts.append(Bar(start, opened, high, low, close, volume))
        opened = close
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
    portions, seen, given = [], 0, 0
    for weight in weights:
        seen += weight
        until = volume * seen // total
        portions.append(until - given)
        given = until
    return portions
