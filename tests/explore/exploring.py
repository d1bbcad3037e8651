"""Run an exploration of test servers."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from turnwise.explore.command import ExploreCommand
from turnwise.explore.exploration import Exploration
from turnwise.explore.options import ExploreOptions
from turnwise.mcp.spec import ServerSpec, load

SERVERS = Path(__file__).parent / "servers"


def entry_of(program: Path, *arguments: object) -> dict[str, object]:
    """Return the command of a server in `mcp.json`; it starts without the imports of the SDK."""
    light = Path(__file__).with_name("light_sdk.py")
    return {"command": sys.executable, "args": ["-I", *map(str, (light, program, *arguments))]}


def specs_of(folder: Path, *names: str) -> tuple[ServerSpec, ...]:
    """Write an mcp.json with test servers and with ways to misbehave of these names, and load it."""
    entries = {}
    for name in names:
        program = SERVERS / f"{name}.py"
        entry = entry_of(program) if program.exists() else entry_of(SERVERS / "misbehaving.py", name)
        entries[name] = {**entry, "turnwise": {"num_warm": 0}}  # starting servers is what costs
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": entries}))
    return load(file)


class Heard(Console):
    """A console that hands on the lines of progress and prints nothing."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(quiet=True)
        self._hear = hear

    def print(self, *words: object, **_: object) -> None:
        self._hear(" ".join(map(str, words)))


async def explored(
    specs: Sequence[ServerSpec],
    out: Path | None = None,
    *,
    num_tasks: int,
    minutes: float = 20.0,
    seed: int = 0,
    hear: Callable[[str], None] = lambda _: None,
) -> Exploration:
    """Explore servers with a fixed seed; the time is far beyond what they take."""
    options = ExploreOptions(num_tasks, minutes, seed, pause_seconds=0)
    return await ExploreCommand(specs, out, options, Heard(hear)).run()
