"""A synthetic market, its web and its Slack workspace: every tool works with no key and no network."""

from collections.abc import Awaitable, Callable

Drop = Callable[[str], Awaitable[None]]


def embedded_backend(name: str, seed: int) -> tuple[object, Drop | None]:
    """A server's backend over the world with this seed, and how an episode's state is dropped (slack)."""
    # Imported here, so that reading the world alone does not load the tools and the MCP SDK behind them.
    from turnwise.servers.embedded.fmp import EmbeddedFmp
    from turnwise.servers.embedded.polygon import EmbeddedPolygon
    from turnwise.servers.embedded.slack import EmbeddedSlack
    from turnwise.servers.embedded.tavily import EmbeddedTavily
    from turnwise.servers.embedded.world import open_world

    world = open_world(seed)
    match name:
        case "fmp":
            return EmbeddedFmp(world), None
        case "polygon":
            return EmbeddedPolygon(world), None
        case "tavily":
            return EmbeddedTavily(world), None
        case "slack":
            slack = EmbeddedSlack(world)
            return slack, slack.drop
        case _:
            raise ValueError(f"name: no embedded backend for {name!r}; known: fmp, polygon, tavily, slack")
