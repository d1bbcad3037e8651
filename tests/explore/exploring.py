"""Run an exploration of test servers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tests import warm
from turnwise.explore.exploration import Exploration
from turnwise.explore.explorer import Explorer
from turnwise.explore.options import ExploreOptions
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, load

SERVERS = Path(__file__).parent / "servers"
GOOD = ("shop", "notes")
SECRETIVE = "vault"
WITH_RESOURCES = "library"
COMPUTING = "computing"


def python() -> str:
    """What starts a server of the tests: an exploration starts many, and most of that is their imports."""
    return warm.python("mcp.server")


def arguments_of(name: str) -> list[str]:
    """Return the program of a test server and its arguments."""
    *ways, program = name.split("_")
    if (SERVERS / f"{program}.py").exists():
        return [str(SERVERS / f"{program}.py"), *ways]
    return [str(SERVERS / "misbehaving.py"), name]


def specs_of(folder: Path, *names: str) -> tuple[ServerSpec, ...]:
    """Write an mcp.json with the good servers and the ways to misbehave of these names, and load it."""
    entries = {
        name: {
            "command": python(),
            "args": arguments_of(name),
            "turnwise": {"num_warm": 0},  # starting servers is what costs: none that nobody uses
        }
        for name in names
    }
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    return load(file)


async def explored(
    folder: Path, *names: str, num_tasks: int, minutes: float = 20.0, pause_seconds: float = 0.0
) -> Exploration:
    """Explore the servers with a fixed seed; the time is far beyond what they take."""
    return await exploring(specs_of(folder, *names), num_tasks, minutes, pause_seconds)


async def exploring(
    specs: Sequence[ServerSpec],
    num_tasks: int,
    minutes: float,
    pause_seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> Exploration:
    options = ExploreOptions(num_tasks, minutes, pause_seconds=pause_seconds)
    async with Pool(specs) as pool:
        explorer = Explorer(pool, specs, options, say)
        await explorer.run()
        return explorer.result()
