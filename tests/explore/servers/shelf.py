"""A shelf of versions: what is staged can be unstaged, which does nothing else, and committed."""

import datetime
import hashlib
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("shelf")
PAGES = ("intro", "rates", "sources", "glossary", "summary", "index", "credits", "errata", "notes", "cover")
VERSIONS: dict[str, list[str]] = {
    hashlib.sha1(page.encode()).hexdigest(): list(PAGES[: number + 1]) for number, page in enumerate(PAGES)
}
MESSAGES = {version: f"Add the {pages[-1]}" for version, pages in VERSIONS.items()}
CHANGED = ["errata", "rates"]
STAGED: list[str] = []


@server.tool()
def show_status() -> dict[str, Any]:
    """Show which pages have changed and which of them are staged."""
    return {"pages": [{"page": page, "staged": page in STAGED} for page in sorted(CHANGED)]}


@server.tool()
def list_versions(until: str = "") -> list[dict[str, Any]]:
    """List the versions, those until a date (YYYY-MM-DD) if one is given."""
    kept = VERSIONS if not until or until > "2024-06-01" else {}
    return [{"version": version, "message": MESSAGES[version]} for version in kept]


@server.tool()
def pages_since(target: str) -> list[dict[str, Any]]:
    """List the pages that came after a version."""
    if target not in VERSIONS:
        raise ToolError(f"{target!r} is no version")
    return [{"page": page, "place": 10 * PAGES.index(page) + 7} for page in PAGES[len(VERSIONS[target]) :]]


@server.tool()
def stage_page(page: str) -> str:
    """Stage a changed page."""
    if page not in CHANGED:
        raise ToolError(f"{page!r} has not changed")
    if page not in STAGED:
        STAGED.append(page)
    return "Staged"


@server.tool()
def unstage_pages() -> str:
    """Unstage all pages."""
    STAGED.clear()
    return "Nothing is staged now"


@server.tool()
def days_in_month(date: str = "") -> str:
    """Return the number of days of the month of a date (YYYY-MM-DD), today by default."""
    try:
        day = datetime.date.fromisoformat(date or str(datetime.datetime.now(datetime.UTC).date()))
    except ValueError:
        raise ToolError(f"{date!r} is no date") from None
    following = (day.replace(day=28) + datetime.timedelta(days=4)).replace(day=1)
    return f"The number of days is {(following - day.replace(day=1)).days}."


if __name__ == "__main__":
    server.run()
