"""Run an exploration of test servers."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from turnwise.explore.exploration import Exploration
from turnwise.explore.first.explorer import Explorer
from turnwise.explore.first.options import ExploreOptions
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, load

SERVERS = Path(__file__).parent / "servers"
GOOD = ("shop", "notes")
SECRETIVE = "vault"
WITH_RESOURCES = "library"
COMPUTING = "computing"


def entry_of(program: Path, *arguments: object) -> dict[str, object]:
    """Return the command of a server in `mcp.json`; it starts without the imports of the SDK."""
    light = Path(__file__).parents[1] / "explore" / "light_sdk.py"
    return {"command": sys.executable, "args": ["-I", *map(str, (light, program, *arguments))]}


def command_of(name: str) -> dict[str, object]:
    """Return the command of a test server: `bare_diary` is `diary.py` with the argument `bare`."""
    *ways, program = name.split("_")
    if (SERVERS / f"{program}.py").exists():
        return entry_of(SERVERS / f"{program}.py", *ways)
    return entry_of(SERVERS / "misbehaving.py", name)


def specs_of(folder: Path, *names: str) -> tuple[ServerSpec, ...]:
    """Write an mcp.json with the good servers and the ways to misbehave of these names, and load it."""
    entries = {
        name: {
            **command_of(name),
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
