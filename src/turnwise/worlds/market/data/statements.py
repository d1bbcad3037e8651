"""Income statements of a company; the four quarters of a year add up to the year."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from turnwise.worlds.market.data.businesses import Business
from turnwise.worlds.market.data.companies import Company, yearly_revenue
from turnwise.worlds.market.data.sessions import session_on_or_after
from turnwise.worlds.stream import Stream

QUARTERS = tuple((year, quarter) for year in range(2021, 2027) for quarter in (1, 2, 3, 4))[:21]
"""2021 Q1 to 2026 Q1 (the latest reported at the clock), oldest first. Fiscal years are calendar years."""

QUARTER_ENDS = {1: (3, 31), 2: (6, 30), 3: (9, 30), 4: (12, 31)}


@dataclass(frozen=True, slots=True)
class IncomeStatement:
    """One quarter or year, in whole dollars; earnings per share in cents."""

    symbol: str
    fiscal_year: int
    period: str
    """Q1, Q2, Q3, Q4, or FY for the year."""
    ends_on: date
    revenue: int
    cost_of_revenue: int
    operating_expenses: int
    net_income: int
    eps_cents: int

    @property
    def gross_profit(self) -> int:
        return self.revenue - self.cost_of_revenue

    @property
    def operating_income(self) -> int:
        return self.gross_profit - self.operating_expenses

    @property
    def eps(self) -> float:
        return self.eps_cents / 100


def make_quarters(seed: int, company: Company, business: Business) -> tuple[IncomeStatement, ...]:
    """Generate every quarter, oldest first, with the margins of a line of business."""
    stream = Stream(seed, "statements", company.symbol)
    growth = stream.between(-0.05, 0.20)
    gross_margin = stream.between(*business.gross_margin) / 100
    costs = stream.between(*business.operating_costs) / 100
    if stream.unit() < 0.05:
        costs = gross_margin + stream.between(0.04, 0.20)  # some companies lose money
    elif abs(gross_margin - costs) < 0.03:
        costs = gross_margin - 0.04  # a margin near zero would give a P/E in the thousands
    season = [1.0 + 0.06 * stream.bell() for _ in range(4)]
    # Start at the level from which 4.5 years of growth lead to `yearly_revenue`, the sales of 2025.
    level = yearly_revenue(seed, company.symbol, company.shares, business) / 4 / (1.0 + 4.5 * growth)
    quarters = []
    for year, quarter in QUARTERS:
        level *= 1.0 + growth / 4 + 0.015 * stream.bell()
        revenue = _thousands(level * season[quarter - 1])
        cost = _thousands(revenue * (1.0 - gross_margin - 0.01 * stream.bell()))
        expenses = _thousands(revenue * (costs + 0.01 * stream.bell()))
        earned = (revenue - cost - expenses) * stream.between(0.68, 0.82)
        # Net income is a whole number of cents per share, so that quarterly EPS add up to the year's.
        eps_cents = round(earned * 100 / company.shares)
        quarters.append(
            IncomeStatement(
                symbol=company.symbol,
                fiscal_year=year,
                period=f"Q{quarter}",
                ends_on=date(year, *QUARTER_ENDS[quarter]),
                revenue=revenue,
                cost_of_revenue=cost,
                operating_expenses=expenses,
                net_income=eps_cents * company.shares // 100,
                eps_cents=eps_cents,
            )
        )
    return tuple(quarters)


def years_of(quarters: Sequence[IncomeStatement]) -> tuple[IncomeStatement, ...]:
    """Return annual statements for the years with all four quarters, oldest first."""
    by_year: dict[int, list[IncomeStatement]] = {}
    for quarter in quarters:
        by_year.setdefault(quarter.fiscal_year, []).append(quarter)
    return tuple(_sum(parts) for parts in by_year.values() if len(parts) == 4)


def reported_on(company: Company, statement: IncomeStatement) -> date:
    """Return the session on which a statement was published."""
    return session_on_or_after(statement.ends_on + timedelta(days=company.reporting_lag_days))


def _sum(parts: Sequence[IncomeStatement]) -> IncomeStatement:
    last = parts[-1]
    return IncomeStatement(
        symbol=last.symbol,
        fiscal_year=last.fiscal_year,
        period="FY",
        ends_on=last.ends_on,
        revenue=sum(part.revenue for part in parts),
        cost_of_revenue=sum(part.cost_of_revenue for part in parts),
        operating_expenses=sum(part.operating_expenses for part in parts),
        net_income=sum(part.net_income for part in parts),
        eps_cents=sum(part.eps_cents for part in parts),
    )


def _thousands(dollars: float) -> int:
    return round(dollars / 1000) * 1000
