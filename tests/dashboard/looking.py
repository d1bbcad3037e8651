"""How tests look at the page: go to a view, wait until it is whole, read what a chart says."""

from typing import Any

from tests.dashboard.test_server import Served

VIEWS = {
    "overview": ".chart",
    "health": "#chart-ratios-0",
    "trajectories": "table#list",
    "tools": "table#tools",
    "evaluations": "#change",
}
"""What stands in each view once it is whole."""


def look(page: Any, served: Served, view: str, **settings: object) -> None:
    words = "&".join(f"{name}={value}" for name, value in {"runs": "run", **settings}.items())
    page.goto(f"http://127.0.0.1:{served.port}/#/{view}?{words}")
    page.wait_for_selector(f'main[data-view="{view}"] {VIEWS.get(view, ".conversation")}')


def shown(value: float) -> str:
    """As the page writes a number of four digits."""
    return f"{float(f'{value:.4g}'):g}"


def readout(page: Any, chart: str) -> dict[str, str]:
    """Each line's name and the exact value beside it."""
    items = page.query_selector_all(f"#chart-{chart} .readout [data-label]")
    return {
        item.get_attribute("data-label"): item.query_selector(".number").get_attribute("title")
        for item in items
    }
