"""A board whose tools mislead: a log of calls, a list that hides rows, a writer that answers with rows."""

import time
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("board")
CARDS: dict[str, dict[str, Any]] = {
    f"c{100 + number}": {"title": title, "column": column, "points": points}
    for number, (title, column, points) in enumerate(
        (
            ("Paint the fence", "doing", 5),
            ("Mend the roof", "done", 8),
            ("Order gravel", "next", 2),
            ("Call the plumber", "next", 1),
            ("Sow the lawn", "done", 3),
        )
    )
}
LOG: list[str] = []
OPENED: list[str] = []


@server.tool()
def list_cards(include_done: bool = False) -> list[dict[str, Any]]:
    """List the cards."""
    LOG.append("list_cards")
    return [{"card_id": key, **row} for key, row in CARDS.items() if include_done or row["column"] != "done"]


@server.tool()
def get_card(card_id: str) -> dict[str, Any]:
    """Return one card."""
    LOG.append("get_card")
    if card_id not in CARDS:
        raise ToolError(f"no card {card_id!r}")
    return {"card_id": card_id, **CARDS[card_id], "read_at": time.time()}


@server.tool()
def recent_calls() -> list[str]:
    """List the last calls."""
    LOG.append("recent_calls")
    return LOG[-5:]


@server.tool()
def ensure_card(title: str) -> dict[str, Any]:
    """Return the card of this title; it is made if there is none."""
    LOG.append("ensure_card")
    known = {row["title"]: key for key, row in CARDS.items()}
    key = known.get(title) or f"c{100 + len(CARDS)}"
    CARDS.setdefault(key, {"title": title, "column": "next", "points": 1})
    return {"card_id": key, **CARDS[key]}


@server.tool()
def open_board(name: str) -> str:
    """Open a board."""
    OPENED.append(name)
    return f"Opened {name}"


@server.tool()
def count_points() -> dict[str, Any]:
    """Add up the points of the open board."""
    if not OPENED:
        raise ToolError("no board is open: call open_board first")
    return {"points": sum(row["points"] for row in CARDS.values())}


if __name__ == "__main__":
    server.run()
