"""The embedded world, made once."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.mcp.serve import Handler
from turnwise.worlds.market.contract import service_of
from turnwise.worlds.market.tools.fmp import EmbeddedFmp
from turnwise.worlds.market.tools.polygon import EmbeddedPolygon
from turnwise.worlds.market.tools.slack import EmbeddedSlack
from turnwise.worlds.market.tools.tavily import EmbeddedTavily
from turnwise.worlds.market.world import World, open_world

Call = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the world of seed 0 is cached for all tests: making one takes more than a second."""
    return tmp_path_factory.getbasetemp() / "worlds" / "turnwise"


@pytest.fixture(scope="session")
def world(cache_dir: Path) -> World:
    return open_world(0, cache_dir=cache_dir)


@pytest.fixture(scope="session")
def handlers(world: World) -> dict[str, Handler]:
    """The handlers that the four MCP servers call, by tool."""
    slack = EmbeddedSlack(world)
    services = (
        service_of("fmp", EmbeddedFmp(world)),
        service_of("polygon", EmbeddedPolygon(world)),
        service_of("tavily", EmbeddedTavily(world)),
        service_of("slack", slack, drop=slack.drop),
    )
    return {tool.name: tool.handler for service in services for tool in service.tools}


@pytest.fixture
def call(handlers: dict[str, Handler], request: pytest.FixtureRequest) -> Call:
    """`await call(tool, **arguments)`, in an episode of the test's own."""
    return lambda tool, **arguments: handlers[tool](arguments, request.node.nodeid)
