"""Tavily's tools over the embedded web."""

from collections.abc import Mapping
from typing import Any

from turnwise.worlds.market.tools.arguments import read_choice, read_limit, read_text
from turnwise.worlds.market.web.answers import answer
from turnwise.worlds.market.web.library import passage
from turnwise.worlds.market.world import World

Row = Mapping[str, Any]

MAX_RESULTS = 20
CONTENT_CHARS = {"basic": 320, "advanced": 1200}
"""How much of a page a result shows: a few sentences, or nearly the whole page."""

NO_ANSWER = "No answer was found for this question."


class EmbeddedTavily:
    """Tavily's tools; each method implements the tool of the same name."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def tavily_search(self, query: object, max_results: object, search_depth: object) -> Row:
        text = read_text(query, "query")
        depth = read_choice(search_depth, "search_depth", tuple(CONTENT_CHARS))
        hits = self._world.search(text, limit=read_limit(max_results, "max_results", most=MAX_RESULTS))
        results = [
            {
                "title": hit.page.title,
                "url": hit.page.url,
                "content": passage(hit.page, text, max_chars=CONTENT_CHARS[depth]),
                "score": hit.score,
            }
            for hit in hits
        ]
        return {"query": text, "results": results}

    async def tavily_qna_search(self, query: object) -> Row:
        text = read_text(query, "query")
        return {"query": text, "answer": answer(self._world.market, text) or self._best_passage(text)}

    def _best_passage(self, text: str) -> str:
        hits = self._world.search(text, limit=1)
        return passage(hits[0].page, text, max_chars=240) if hits else NO_ANSWER
