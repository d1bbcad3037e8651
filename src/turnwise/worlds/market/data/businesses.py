"""Lines of business of the embedded world, and the parts of its invented names."""

from dataclasses import dataclass

from turnwise.worlds.market.data.tables import rows, table_of, words


@dataclass(frozen=True, slots=True)
class Business:
    """A line of business: its names and products, and ranges for its accounts (margins in % of revenue)."""

    sector: str
    industry: str
    nouns: tuple[str, ...]
    products: tuple[str, ...]
    sic_code: str
    sic_description: str
    gross_margin: tuple[int, int]
    operating_costs: tuple[int, int]
    price_to_sales: tuple[float, float]


def _business(row: dict[str, str]) -> Business:
    (gross_low, gross_high), (costs_low, costs_high), (sales_low, sales_high) = (
        row[name].split("-") for name in ("gross_margin", "operating_costs", "price_to_sales")
    )
    return Business(
        sector=row["sector"],
        industry=row["industry"],
        nouns=tuple(row["nouns"].split(",")),
        products=tuple(row["products"].split(",")),
        sic_code=row["sic_code"],
        sic_description=row["sic_description"],
        gross_margin=(int(gross_low), int(gross_high)),
        operating_costs=(int(costs_low), int(costs_high)),
        price_to_sales=(float(sales_low), float(sales_high)),
    )


BUSINESSES = tuple(map(_business, rows("businesses.psv")))

SECTORS = tuple(sorted({business.sector for business in BUSINESSES}))

BUSINESS_OF = {business.industry: business for business in BUSINESSES}

HEADS, TAILS = words("heads"), words("tails")
"""A root is a head plus a tail. No combination is a word or, as far as we know, a listed company."""

TICKER_ENDINGS = "TSGHCDJ"
"""Tickers are five letters that end in one of these: hardly any real listing has that form."""

PLACES = tuple((country, tuple(cities)) for country, cities in table_of("cities").items())

FIRST_NAMES, LAST_NAMES = words("first_names"), words("last_names")
UNIVERSITIES, PUBLISHERS = words("universities"), words("publishers")
