"""Check arguments as the model wrote them before they are sent to a provider."""

import re
from datetime import date
from typing import Any

from turnwise.mcp.serve import ToolError

SYMBOL = re.compile(r"[A-Z0-9^][A-Z0-9.:=^-]{0,20}")
"""Matches AAPL, BRK.B, BRK-B, 0700.HK, ^GSPC, EURUSD=X, X:BTCUSD."""

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def symbol(value: Any, *, name: str) -> str:
    """Return a ticker in capitals (`$abc` is accepted); text with another meaning in a URL is refused."""
    text = value.strip().removeprefix("$").upper() if isinstance(value, str) else ""
    if not SYMBOL.fullmatch(text):
        raise ToolError(f"{name} must be a ticker symbol such as AAPL, not {_shown(value)}")
    return text


def symbols(value: Any, *, name: str, most: int = 20) -> list[str]:
    """Parse comma-separated tickers."""
    parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else [value]
    if len(parts) > most:
        raise ToolError(f"{name} takes at most {most} symbols, not {len(parts)}")
    return [symbol(part, name=name) for part in parts or [value]]


def day(value: Any, *, name: str) -> date:
    """Parse a date written YYYY-MM-DD."""
    written = value.strip() if isinstance(value, str) else ""
    try:
        # Check the pattern first: fromisoformat also accepts 20240102 and 2024-W01-2.
        parsed = date.fromisoformat(written) if DATE.fullmatch(written) else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise ToolError(f"{name} must be a date written YYYY-MM-DD, not {_shown(value)}")
    return parsed


def count(value: Any, *, name: str, most: int) -> int:
    """Return a whole number of at least 1, cut to `most`, the limit of one answer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ToolError(f"{name} must be a whole number of at least 1, not {_shown(value)}")
    return min(value, most)


def text(value: Any, *, name: str, most: int) -> str:
    """Return non-empty text that can be encoded as UTF-8."""
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name} must be a text that is not empty")
    if len(value) > most:
        raise ToolError(f"{name} has {len(value)} characters; at most {most} are allowed")
    # A lone surrogate is legal in a model's JSON escapes but cannot be encoded.
    return value.encode("utf-8", "replace").decode("utf-8")


def choice(value: Any, *, name: str, among: tuple[str, ...]) -> str:
    """Return one of the words that the schema lists, ignoring case."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in among:
        raise ToolError(f"{name} must be one of {', '.join(among)}, not {_shown(value)}")
    return word


def _shown(value: Any) -> str:
    written = ascii(value)
    return written if len(written) <= 60 else written[:60] + "…"
