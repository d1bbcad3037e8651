"""Measure the embedded world: generating it, loading it from the cache, and every tool."""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnwise.worlds.market.contract import service_of
from turnwise.worlds.market.data.market import make_market
from turnwise.worlds.market.store import make_image
from turnwise.worlds.market.tools.fmp import EmbeddedFmp
from turnwise.worlds.market.tools.polygon import EmbeddedPolygon
from turnwise.worlds.market.tools.slack import EmbeddedSlack
from turnwise.worlds.market.tools.tavily import EmbeddedTavily
from turnwise.worlds.market.web.news import make_articles
from turnwise.worlds.market.world import World, open_world

NUM_TIMES = 5
NUM_COMPANIES = 50

CALLS: dict[str, dict[str, Any]] = {
    "fmp_get_quote": {"symbol": "SYMBOL"},
    "fmp_get_income_statement": {"symbol": "SYMBOL", "period": "quarterly", "limit": 8},
    "fmp_get_market_gainers": {},
    "fmp_search_ticker": {"query": "NAME"},
    "fmp_get_stock_news": {"tickers": "SYMBOL"},
    "polygon_get_aggs": {"ticker": "SYMBOL", "start_date": "2024-07-01", "end_date": "2026-06-30"},
    "polygon_get_news": {"ticker": "SYMBOL"},
    "tavily_search": {"query": "Who is the CEO of NAME?"},
    "tavily_qna_search": {"query": "What was the revenue of NAME in 2025?"},
    "send_slack_message": {"channel": "general", "message": "NAME"},
    "get_slack_channel_history": {"channel_id": "general"},
}


def median_seconds(run: Callable[[], object]) -> float:
    def once() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(NUM_TIMES))


async def tool_seconds(world: World) -> dict[str, list[float]]:
    """Seconds of each call, over companies that were not requested before."""
    slack = EmbeddedSlack(world)
    services = (
        service_of("fmp", EmbeddedFmp(world)),
        service_of("polygon", EmbeddedPolygon(world)),
        service_of("tavily", EmbeddedTavily(world)),
        service_of("slack", slack, drop=slack.drop),
    )
    handlers = {tool.name: tool.handler for service in services for tool in service.tools}
    seconds: dict[str, list[float]] = {}
    for tool, template in CALLS.items():
        for company in world.market.companies()[:NUM_COMPANIES]:
            text = json.dumps(template).replace("SYMBOL", company.symbol).replace("NAME", company.name)
            arguments = json.loads(text)
            start = time.perf_counter()
            await handlers[tool](arguments, company.symbol)
            seconds.setdefault(tool, []).append(time.perf_counter() - start)
    return seconds


def main() -> None:
    market = make_market(0)
    print(f"market                {median_seconds(lambda: make_market(0)):7.3f} s")
    print(f"news                  {median_seconds(lambda: make_articles(market)):7.3f} s")
    print(f"whole world           {median_seconds(lambda: make_image(0)):7.3f} s   (goal: under 2)")
    with tempfile.TemporaryDirectory() as folder:
        world = open_world(0, cache_dir=Path(folder))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        reading = median_seconds(lambda: open_world(0, cache_dir=Path(folder)))
        print(f"read from the cache   {reading:7.3f} s   (goal: under 0.2; {size / 1e6:.1f} MB)")
    for tool, seconds in asyncio.run(tool_seconds(world)).items():
        median, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(f"{tool:26s} {median:7.2f} ms median {worst:7.2f} ms worst of {len(seconds)}")


if __name__ == "__main__":
    main()
