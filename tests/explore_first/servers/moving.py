"""Servers whose answers move, although nothing is written; the arguments say how.

prices FILE SECONDS   prices that rise every so many seconds after the time in FILE
counters              every reading of a book is counted, and the book shows the count
"""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

READS = ToolAnnotations(readOnlyHint=True)
BOOKS: dict[str, dict[str, Any]] = {
    "QX-4471": {"author": "Ida Brandt", "num_pages": 312},
    "QX-5508": {"author": "Jonas Vik", "num_pages": 148},
    "QX-9930": {"author": "Lena Sato", "num_pages": 527},
    "QX-1207": {"author": "Omar Haddad", "num_pages": 289},
}
STOCKS = {
    "ALDR": {"sector": "timber", "price": 118.25},
    "BRKT": {"sector": "metals", "price": 64.5},
    "CNDL": {"sector": "energy", "price": 203.75},
    "DUSK": {"sector": "textiles", "price": 41.1},
}
server = MCPServer("moving")
reads: Counter[str] = Counter()


def prices() -> None:
    started, period = float(Path(sys.argv[2]).read_text()), float(sys.argv[3])

    def rise() -> float:
        return 1.37 * ((time.time() - started) // period)

    @server.tool(annotations=READS)
    def list_stocks() -> dict[str, Any]:
        """List the symbols of all stocks with their prices."""
        rows = [{"symbol": symbol, "price": round(it["price"] + rise(), 2)} for symbol, it in STOCKS.items()]
        return {"stocks": rows}

    @server.tool(annotations=READS)
    def get_stock(symbol: str) -> dict[str, Any]:
        """Return the sector and the price of a stock."""
        if symbol not in STOCKS:
            raise ToolError(f"no stock {symbol!r}; there are: {', '.join(STOCKS)}")
        stock = STOCKS[symbol]
        return {"sector": stock["sector"], "price": round(stock["price"] + rise(), 2)}


def counters() -> None:
    @server.tool(annotations=READS)
    def list_books() -> dict[str, Any]:
        """List the shelf marks of all books."""
        return {"books": [{"mark": mark} for mark in BOOKS]}

    @server.tool(annotations=READS)
    def get_book(mark: str) -> dict[str, Any]:
        """Return the author and the length of a book."""
        if mark not in BOOKS:
            raise ToolError(f"no book {mark!r}; there are: {', '.join(BOOKS)}")
        reads[mark] += 1
        return {**BOOKS[mark], "views": 7 * BOOKS[mark]["num_pages"] + reads[mark]}


if __name__ == "__main__":
    {"prices": prices, "counters": counters}[sys.argv[1]]()
    server.run()
