"""Run an exploration of one of the test servers."""

import json
import sys
from pathlib import Path

from turnwise.explore.exploration import Exploration
from turnwise.explore.explorer import ExploreOptions, Explorer
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, load

SERVERS = Path(__file__).parent / "servers"


def specs_of(folder: Path, *names: str) -> tuple[ServerSpec, ...]:
    """Write an mcp.json that starts these scripts, and load it."""
    file = folder / "mcp.json"
    entries = {name: {"command": sys.executable, "args": [str(SERVERS / f"{name}.py")]} for name in names}
    file.write_text(json.dumps({"mcpServers": entries}))
    return load(file)


async def explored(folder: Path, *names: str, num_tasks: int = 40, minutes: float = 20.0) -> Exploration:
    """Explore the servers with a fixed seed."""
    specs = specs_of(folder, *names)
    async with Pool(specs) as pool:
        explorer = Explorer(pool, specs, ExploreOptions(num_tasks, minutes), lambda _: None)
        await explorer.run()
        return explorer.result()
