"""A synthetic market, its web and its Slack workspace: every tool works with no key and no network."""

from collections.abc import Awaitable, Callable

NAMES = ("fmp", "polygon", "tavily", "slack")

Drop = Callable[[str], Awaitable[None]]


def embedded_backend(name: str, seed: int) -> tuple[object, Drop | None]:
    """Return a backend over the world of this seed, and the function to drop an episode (Slack only)."""
    # Imported here so that reading only the world does not load the tools and the MCP SDK.
    from turnwise.worlds.market.tools.fmp import EmbeddedFmp
    from turnwise.worlds.market.tools.polygon import EmbeddedPolygon
    from turnwise.worlds.market.tools.slack import EmbeddedSlack
    from turnwise.worlds.market.tools.tavily import EmbeddedTavily
    from turnwise.worlds.market.world import open_world

    if name not in NAMES:
        raise ValueError(f"name: no embedded backend for {name!r}; known: {', '.join(NAMES)}")
    world = open_world(seed)
    if name == "slack":
        slack = EmbeddedSlack(world)
        return slack, slack.drop
    backends = {"fmp": EmbeddedFmp, "polygon": EmbeddedPolygon, "tavily": EmbeddedTavily}
    return backends[name](world), None
