"""Check a tool's arguments as the model wrote them; a ToolError says what is wrong."""

from datetime import date, datetime

from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.listed_names import EXACT, find_companies
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.names import nearest, normal_symbol

MAX_LISTED = 50
"""The most rows a list tool returns, whatever limit is requested."""


def read_text(value: object, name: str, *, max_chars: int = 400) -> str:
    """Return non-empty text. Lone surrogates, which cannot be encoded, become question marks."""
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, not {type(value).__name__}")
    if not value.strip():
        raise ToolError(f"{name} is empty")
    if len(value) > max_chars:
        raise ToolError(f"{name} has {len(value)} characters; at most {max_chars} are allowed")
    return value.encode("utf-8", "replace").decode("utf-8")


def read_company(market: Market, value: object, name: str = "symbol") -> Company:
    """Return the company with this symbol, ignoring case and surrounding spaces."""
    text = read_text(value, name)
    symbol = normal_symbol(text)
    if market.is_listed(symbol):
        return market.company(symbol)
    near = (find_companies(market, text, least=EXACT) or nearest(market.companies(), symbol))[:3]
    hint = (
        f"did you mean {', '.join(f'{company.symbol} ({company.name})' for company in near)}?"
        if near
        else "nothing listed is spelt like it; look the company up by its name"
    )
    raise ToolError(f"unknown ticker {symbol[:40]!a}; {hint}")


def read_limit(value: object, name: str = "limit", *, most: int = MAX_LISTED) -> int:
    """Return a count of at least 1, cut to `most`: asking for too many rows is not an error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ToolError(f"{name} must be a whole number, not {str(value)[:40]!a}")
    if value < 1:
        raise ToolError(f"{name} is {str(value)[:40]}; it must be 1 or more")
    return min(value, most)


def read_date(value: object, name: str) -> date:
    """Parse a day written YYYY-MM-DD."""
    text = read_text(value, name).strip()
    try:
        # fromisoformat would also accept 20260630 and 2026-W27-2.
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise ToolError(f"{name} is {text[:40]!a}; write a real day as YYYY-MM-DD, like 2026-06-30") from None


def read_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Return one of the choices, ignoring case."""
    word = read_text(value, name).strip().lower()
    if word not in choices:
        raise ToolError(f"{name} is {word[:40]!a}; it must be one of {', '.join(choices)}")
    return word
