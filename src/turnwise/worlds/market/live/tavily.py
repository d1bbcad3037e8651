"""Tavily's tools over its search API."""

from typing import Any

from turnwise.worlds.market.live import arguments
from turnwise.worlds.market.live.http import Provider
from turnwise.worlds.market.live.shapes import Record, pick, record, records, scalar

SOURCE = "Tavily"
MAX_RESULTS = 20
MAX_QUERY_CHARS = 400
"""Both are Tavily's own limits."""

NO_ANSWER = "No answer was found for this question."

RESULT = ("title", "url", "content", "score")


class LiveTavily:
    """One method per tavily tool."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def tavily_search(self, query: str, max_results: int = 5, search_depth: str = "basic") -> Record:
        wanted = arguments.text(query, name="query", most=MAX_QUERY_CHARS)
        num = arguments.count(max_results, name="max_results", most=MAX_RESULTS)
        depth = arguments.choice(search_depth, name="search_depth", among=("basic", "advanced"))
        payload = await self._search({"query": wanted, "max_results": num, "search_depth": depth})
        rows = records(payload.get("results"), source=SOURCE)
        results = [pick(row, RESULT, source=SOURCE, required=("title", "url")) for row in rows[:num]]
        return {"query": wanted, "results": results}

    async def tavily_qna_search(self, query: str) -> Record:
        wanted = arguments.text(query, name="query", most=MAX_QUERY_CHARS)
        payload = await self._search({"query": wanted, "include_answer": True, "search_depth": "basic"})
        return {"query": wanted, "answer": scalar(payload.get("answer"), source=SOURCE) or NO_ANSWER}

    async def _search(self, body: dict[str, Any]) -> Record:
        # A search is a POST but changes nothing, so it may be repeated like a GET.
        call = self._provider.call()
        payload = await call.post("search", body, subject="this query", is_repeatable=True)
        return record(payload, source=SOURCE)
