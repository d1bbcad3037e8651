"""Families that compute: bars averaged or searched, sources set against each other, growth compared."""

from collections.abc import Sequence

from turnwise.tasks.proof.answers import TWO_DECIMALS, computed, plain, printed
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.types import Answer, Difficulty
from turnwise.worlds.market.families.facts import BarFacts
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.lookups import FIGURES, PRICES, known_figure
from turnwise.worlds.market.families.searches import TICKER_ONLY, search, symbol_in


def _window(material: Material, symbol: str, num_sessions: int) -> Sequence[BarFacts]:
    """Return `num_sessions` consecutive bars, at random from the last 250."""
    bars = material.market.daily_bars(symbol)[-250:]
    start = int(material.chance.random() * (len(bars) - num_sessions + 1))
    return bars[start : start + num_sessions]


def _bars(symbol: str, window: Sequence[BarFacts]) -> PlanStep:
    start, end = window[0].day.isoformat(), window[-1].day.isoformat()
    return call("polygon_get_aggs", ticker=symbol, start_date=start, end_date=end)


def _number(results: Results, *, unit: str) -> Conclusion:
    """Return the number that the last call printed as the answer."""
    value = float(printed(results[-1]))
    return Conclusion(computed(value, unit=unit), plain(value))


def _average(material: Material) -> Case:
    company = material.pick(material.companies)
    window = _window(material, company.symbol, 5)

    def code(results: Results) -> dict[str, str]:
        closes = [bar["c"] for bar in results[0]["results"]]
        return {"code": f"closes = {closes}\nprint(round(sum(closes) / len(closes), 2))"}

    return Case(
        words={
            "symbol": company.symbol,
            "start": window[0].day.isoformat(),
            "end": window[-1].day.isoformat(),
        },
        form=TWO_DECIMALS,
        turns=((_bars(company.symbol, window),), (PlanStep("execute_python", code),)),
        conclude=lambda results: _number(results, unit="$"),
        known=round(sum(bar.close for bar in window) / len(window), 2),
    )


AVERAGE_CLOSE = Family(
    name="average_close",
    difficulty=Difficulty.MEDIUM,
    servers=("polygon", "python"),
    required_tools=("polygon_get_aggs", "execute_python"),
    phrasings=(
        "Get Polygon's daily bars of {symbol} from {start} to {end} and compute the average close with "
        "execute_python.",
        "What was the mean daily close of {symbol} between {start} and {end}? Take the bars from Polygon "
        "and calculate with execute_python.",
        "Average the closing prices of {symbol} over {start} to {end}: bars from Polygon, arithmetic in "
        "execute_python.",
        "Use Polygon aggregates and execute_python to find the average close of {symbol} from {start} "
        "through {end}.",
        "Please compute, with execute_python, the average of {symbol}'s daily closes on Polygon for {start} "
        "to {end}.",
        "{start} to {end}: what is the average close of {symbol} in Polygon's daily bars? Let "
        "execute_python do the sum.",
    ),
    draft=_average,
)


def _best_day(material: Material) -> Case:
    company = material.pick(material.companies)
    window = _window(material, company.symbol, 10)
    best = sorted(window, key=lambda bar: -bar.close)
    if best[0].close == best[1].close:
        raise LookupError("no single day is best")

    def conclude(results: Results) -> Conclusion:
        day = max(results[0]["results"], key=lambda bar: bar["c"])["t"]
        return Conclusion(Answer(day), day)

    return Case(
        words={
            "symbol": company.symbol,
            "start": window[0].day.isoformat(),
            "end": window[-1].day.isoformat(),
        },
        form="Answer with the date only, as YYYY-MM-DD.",
        turns=((_bars(company.symbol, window),),),
        conclude=conclude,
        known=best[0].day.isoformat(),
    )


HIGHEST_CLOSE_DAY = Family(
    name="highest_close_day",
    difficulty=Difficulty.MEDIUM,
    servers=("polygon",),
    required_tools=("polygon_get_aggs",),
    phrasings=(
        "On which day from {start} to {end} did {symbol} have its highest close? Use Polygon's daily bars.",
        "Get the daily bars of {symbol} from Polygon for {start} to {end}. Which day closed highest?",
        "Between {start} and {end}, when was {symbol}'s close the highest, by Polygon's bars?",
        "Find the session with the top closing price of {symbol} in Polygon's data, {start} to {end}.",
        "Look through Polygon's bars of {symbol} ({start} to {end}) for the day with the best close.",
        "Which date had the maximum close of {symbol} on Polygon within {start} and {end}?",
    ),
    draft=_best_day,
)

_GAP_KEYS = {"close": "c", "open": "o", "high": "h", "low": "l"}


def _gap(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(_GAP_KEYS))
    price = material.market.quote(company.symbol).price
    earlier = getattr(material.market.daily_bars(company.symbol)[-2], what)

    def code(results: Results) -> dict[str, str]:
        before, now = results[0][_GAP_KEYS[what]], results[1]["price"]
        return {"code": f"print(round(({now} - {before}) / {before} * 100, 2))"}

    return Case(
        words={"symbol": company.symbol, "what": what},
        form=TWO_DECIMALS,
        turns=(
            (
                call("polygon_get_previous_close", ticker=company.symbol),
                call("fmp_get_quote", symbol=company.symbol),
            ),
            (PlanStep("execute_python", code),),
        ),
        conclude=lambda results: _number(results, unit="%"),
        known=round((price - earlier) / earlier * 100, 2),
    )


SOURCE_GAP = Family(
    name="source_gap",
    difficulty=Difficulty.HARD,
    servers=("fmp", "polygon", "python"),
    required_tools=("polygon_get_previous_close", "fmp_get_quote", "execute_python"),
    phrasings=(
        "Take the {what} of {symbol}'s previous session from Polygon's previous-close tool and the latest "
        "price from the FMP quote. By how many per cent is the price above the {what} (negative if below)? "
        "Compute with execute_python.",
        "With execute_python, compute the percentage change of {symbol} from the {what} in Polygon's "
        "previous close to the price in FMP's quote.",
        "How far, in per cent of the former, is the {what} of {symbol} in Polygon's previous-close bar from "
        "the FMP quote price? Let execute_python calculate (price - {what}) / {what} * 100.",
        "Polygon's previous-close tool gives {symbol}'s last {what}, FMP's quote its price now. Use "
        "execute_python to get the change between them in per cent.",
        "Set FMP's quoted price of {symbol} against the {what} of Polygon's previous close and work out the "
        "percentage change with execute_python.",
        "From the {what} in {symbol}'s previous close on Polygon to its price in the FMP quote: what is the "
        "change in per cent? Calculate it in execute_python.",
    ),
    draft=_gap,
)


def _per_employee(material: Material) -> Case:
    company = material.pick(material.companies)
    latest = material.market.years(company.symbol)[0]

    def code(results: Results) -> dict[str, str]:
        revenue, employees = results[1][0]["revenue"], results[2]["total_employees"]
        return {"code": f"print(round({revenue} / {employees}, 2))"}

    return Case(
        words={"name": company.name, "year": str(latest.fiscal_year)},
        form=TWO_DECIMALS,
        turns=(
            (search(company.name),),
            (
                PlanStep(
                    "fmp_get_income_statement",
                    lambda r: {"symbol": symbol_in(r[0], company.name), "period": "annual", "limit": 1},
                ),
                PlanStep("polygon_get_ticker_details", lambda r: {"ticker": symbol_in(r[0], company.name)}),
            ),
            (PlanStep("execute_python", code),),
        ),
        conclude=lambda results: _number(results, unit="$"),
        known=round(latest.revenue / company.employees, 2),
    )


REVENUE_PER_EMPLOYEE = Family(
    name="revenue_per_employee",
    difficulty=Difficulty.HARD,
    servers=("fmp", "polygon", "python"),
    required_tools=("fmp_get_income_statement", "polygon_get_ticker_details", "execute_python"),
    phrasings=(
        "What was {name}'s revenue per employee in {year}, in dollars? Revenue is in FMP's income "
        "statement, the number of employees in Polygon's ticker details; divide with execute_python.",
        "Divide the {year} revenue of {name} (FMP income statement) by its employees (Polygon ticker "
        "details), using execute_python.",
        "Find {name}'s ticker, then compute dollars of revenue per employee for {year} with execute_python: "
        "FMP income statement over Polygon ticker details.",
        "How many dollars of {year} revenue does {name} make per employee? Use the income statement from "
        "FMP, ticker details from Polygon and execute_python.",
        "For {name}, use execute_python to work out revenue per employee in {year}: the revenue from FMP's "
        "income statement, the headcount from Polygon's ticker details.",
        "Revenue of {year} by FMP's income statement, headcount by Polygon's ticker details: what is the "
        "ratio for {name}, in dollars a head? Use execute_python.",
    ),
    draft=_per_employee,
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
        return PlanStep(
            "fmp_get_income_statement",
            lambda r: {"symbol": symbol_in(r[place], pair[place].name), "period": "annual", "limit": 2},
        )

    def code(results: Results) -> dict[str, str]:
        revenues = {rows[0]["symbol"]: [row["revenue"] for row in rows] for rows in results[2:4]}
        return {
            "code": f"revenues = {revenues}\n"
            "growth = {symbol: now / before - 1 for symbol, (now, before) in revenues.items()}\n"
            "print(max(growth, key=growth.get))"
        }

    return Case(
        words={"first": pair[0].name, "second": pair[1].name},
        form=TICKER_ONLY,
        turns=(
            (search(pair[0].name), search(pair[1].name)),
            (statement(0), statement(1)),
            (PlanStep("execute_python", code),),
        ),
        conclude=lambda results: Conclusion(Answer(printed(results[4])), printed(results[4])),
        known=max(growth, key=lambda symbol: growth[symbol]),
    )


FASTER_GROWTH = Family(
    name="faster_growth",
    difficulty=Difficulty.HARD,
    servers=("fmp", "python"),
    required_tools=("fmp_get_income_statement", "execute_python"),
    phrasings=(
        "Whose annual revenue grew more in per cent from 2024 to 2025, {first}'s or {second}'s? Use FMP's "
        "income statements and execute_python.",
        "Compare the 2025 revenue growth of {first} and {second}: FMP income statements, arithmetic with "
        "execute_python. Which grew faster?",
        "Between {first} and {second}, find the one with the higher revenue growth in 2025 over 2024, by "
        "FMP income statements; compute with execute_python.",
        "Use FMP's annual income statements and execute_python to tell which of {first} and {second} raised "
        "its revenue by the larger percentage in 2025.",
        "{first} and {second}: which had the stronger revenue growth from 2024 to 2025? Take FMP's income "
        "statements and calculate in execute_python.",
        "Did {first} or {second} grow its revenue faster in 2025? Work it out with execute_python from the "
        "income statements on FMP.",
    ),
    draft=_faster,
)


def _difference(material: Material) -> Case:
    pair, what = material.pick_two(material.companies), material.pick(PRICES)
    key = FIGURES[what][0]
    first, second = (known_figure(material.market.quote(company.symbol), what) for company in pair)

    def code(results: Results) -> dict[str, str]:
        return {"code": f"print(round({results[0][key]} - {results[1][key]}, 2))"}

    return Case(
        words={"first": pair[0].symbol, "second": pair[1].symbol, "what": what},
        form=TWO_DECIMALS,
        turns=(
            tuple(call("fmp_get_quote", symbol=company.symbol) for company in pair),
            (PlanStep("execute_python", code),),
        ),
        conclude=lambda results: _number(results, unit="$"),
        known=round(first - second, 2),
    )


PRICE_DIFFERENCE = Family(
    name="price_difference",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp", "python"),
    required_tools=("fmp_get_quote", "execute_python"),
    phrasings=(
        "Get the FMP quotes of {first} and {second} and subtract the second {what} from the first with "
        "execute_python.",
        "How much higher is the {what} of {first} than that of {second} (negative if lower)? Use FMP quotes "
        "and execute_python.",
        "With execute_python, compute the {what} of {first} minus the {what} of {second}, both from FMP "
        "quotes.",
        "Compare {first} with {second}: what is the {what} of the former minus the {what} of the latter? "
        "Quotes from FMP, arithmetic in execute_python.",
        "Take the {what} from the FMP quotes of {first} and {second}. What is the first less the second, by "
        "execute_python?",
        "By how many dollars does the {what} of {first} exceed the {what} of {second} in their FMP quotes "
        "(negative if it does not)? Calculate in execute_python.",
    ),
    draft=_difference,
)

CALCULATIONS = (
    *(AVERAGE_CLOSE, HIGHEST_CLOSE_DAY, PRICE_DIFFERENCE),
    *(SOURCE_GAP, REVENUE_PER_EMPLOYEE, FASTER_GROWTH),
)
