"""Families that compute: bars averaged or searched, sources set against each other, growth compared."""

from collections.abc import Sequence

from turnwise.tasks.proof.answers import TWO_DECIMALS, computed, plain, printed
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.worlds.market.data.bars import Bar
from turnwise.worlds.market.families.kit import Draft, Material
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, known_figure
from turnwise.worlds.market.families.searches import TICKER_ONLY
from turnwise.worlds.market.families.steps import (
    of_company,
    read_bars,
    read_quote,
    run_python,
    search,
    text_of,
)


def _window(material: Material, symbol: str, num_sessions: int) -> Sequence[Bar]:
    """Return `num_sessions` consecutive bars, at random from the last 250."""
    bars = material.market.daily_bars(symbol)[-250:]
    start = int(material.rng.random() * (len(bars) - num_sessions + 1))
    return bars[start : start + num_sessions]


def _days(window: Sequence[Bar]) -> tuple[str, str]:
    """Return the first and the last day."""
    return window[0].day.isoformat(), window[-1].day.isoformat()


def _number(results: Results, *, unit: str) -> Conclusion:
    """Return the number that the last call printed as the answer."""
    value = float(printed(results[-1]))
    return Conclusion(computed(value, unit=unit), plain(value))


def _average(material: Material) -> Case:
    company = material.pick(material.companies)
    window = _window(material, company.symbol, 5)

    def code(results: Results) -> str:
        closes = [bar["c"] for bar in results[0]["results"]]
        return f"closes = {closes}\nprint(round(sum(closes) / len(closes), 2))"

    return Case(
        words=dict(zip(("symbol", "start", "end"), (company.symbol, *_days(window)), strict=True)),
        form=TWO_DECIMALS,
        turns=((read_bars(company.symbol, *_days(window)),), (run_python(code),)),
        conclude=lambda results: _number(results, unit="$"),
        known=round(sum(bar.close for bar in window) / len(window), 2),
    )


def _best_day(material: Material) -> Case:
    company = material.pick(material.companies)
    window = _window(material, company.symbol, 10)
    best = sorted(window, key=lambda bar: -bar.close)
    if best[0].close == best[1].close:
        raise LookupError("no single day is best")

    def conclude(results: Results) -> Conclusion:
        day = max(results[0]["results"], key=lambda bar: bar["c"])["t"]
        return text_of(day)

    return Case(
        words=dict(zip(("symbol", "start", "end"), (company.symbol, *_days(window)), strict=True)),
        form="Answer with the date only, as YYYY-MM-DD.",
        turns=((read_bars(company.symbol, *_days(window)),),),
        conclude=conclude,
        known=best[0].day.isoformat(),
    )


_GAP_KEYS = {"close": "c", "open": "o", "high": "h", "low": "l"}


def _gap(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(_GAP_KEYS))
    price = material.market.quote(company.symbol).price
    earlier = getattr(material.market.daily_bars(company.symbol)[-2], what)

    def code(results: Results) -> str:
        before, now = results[0][_GAP_KEYS[what]], results[1]["price"]
        return f"print(round(({now} - {before}) / {before} * 100, 2))"

    return Case(
        words={"symbol": company.symbol, "what": what},
        form=TWO_DECIMALS,
        turns=(
            (
                call("polygon_get_previous_close", ticker=company.symbol),
                read_quote(company.symbol),
            ),
            (run_python(code),),
        ),
        conclude=lambda results: _number(results, unit="%"),
        known=round((price - earlier) / earlier * 100, 2),
    )


def _per_employee(material: Material) -> Case:
    company = material.pick(material.companies)
    latest = material.market.years(company.symbol)[0]

    def code(results: Results) -> str:
        revenue, employees = results[1][0]["revenue"], results[2]["total_employees"]
        return f"print(round({revenue} / {employees}, 2))"

    return Case(
        words={"name": company.name, "year": str(latest.fiscal_year)},
        form=TWO_DECIMALS,
        turns=(
            (search(company.name),),
            (
                of_company("fmp_get_income_statement", company.name, period="annual", limit=1),
                of_company("polygon_get_ticker_details", company.name, key="ticker"),
            ),
            (run_python(code),),
        ),
        conclude=lambda results: _number(results, unit="$"),
        known=round(latest.revenue / company.employees, 2),
    )


_MIN_GROWTH_GAP = 0.5
"""Smallest difference, in percentage points, at which rounding cannot change which company grew faster."""


def _growth(material: Material, symbol: str) -> float:
    now, before = material.market.years(symbol)[:2]
    return (now.revenue - before.revenue) / before.revenue * 100


def _faster(material: Material) -> Case:
    pair = material.pick_two(material.companies)
    growth = {company.symbol: _growth(material, company.symbol) for company in pair}
    if abs(growth[pair[0].symbol] - growth[pair[1].symbol]) < _MIN_GROWTH_GAP:
        raise LookupError("they grow alike")

    def statement(place: int) -> PlanStep:
        name = pair[place].name
        return of_company("fmp_get_income_statement", name, place=place, period="annual", limit=2)

    def code(results: Results) -> str:
        revenues = {rows[0]["symbol"]: [row["revenue"] for row in rows] for rows in results[2:4]}
        return (
            f"revenues = {revenues}\n"
            "growth = {symbol: now / before - 1 for symbol, (now, before) in revenues.items()}\n"
            "print(max(growth, key=growth.get))"
        )

    return Case(
        words={"first": pair[0].name, "second": pair[1].name},
        form=TICKER_ONLY,
        turns=(
            (search(pair[0].name), search(pair[1].name)),
            (statement(0), statement(1)),
            (run_python(code),),
        ),
        conclude=lambda results: text_of(printed(results[4])),
        known=max(growth, key=lambda symbol: growth[symbol]),
    )


def _difference(material: Material) -> Case:
    pair, what = material.pick_two(material.companies), material.pick(PRICES)
    key = FIGURES[what][0]
    first, second = (known_figure(material.market.quote(company.symbol), what) for company in pair)

    def code(results: Results) -> str:
        return f"print(round({results[0][key]} - {results[1][key]}, 2))"

    return Case(
        words={"first": pair[0].symbol, "second": pair[1].symbol, "what": what},
        form=TWO_DECIMALS,
        turns=(
            tuple(read_quote(company.symbol) for company in pair),
            (run_python(code),),
        ),
        conclude=lambda results: _number(results, unit="$"),
        known=round(first - second, 2),
    )


CALCULATIONS: dict[str, Draft] = {
    "average_close": _average,
    "highest_close_day": _best_day,
    "price_difference": _difference,
    "source_gap": _gap,
    "revenue_per_employee": _per_employee,
    "faster_growth": _faster,
}
