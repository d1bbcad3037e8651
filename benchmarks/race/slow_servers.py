"""Takes a latency, gives a server file: the built-in ones over their embedded world, slower by that much."""

import json
import sys
from pathlib import Path

DELAYED = Path(__file__).parents[1] / "servers" / "delayed.py"


def write_servers(file: Path, latency: int) -> None:
    """In milliseconds; without keys, so that nothing outside is asked."""
    delay = [sys.executable, str(DELAYED), str(latency)] if latency else []
    blocks = {}
    for name in ("fmp", "polygon", "tavily", "python", "slack"):
        command, *args = [*delay, "turnwise", "serve", name]
        blocks[name] = {"command": command, "args": args}
    file.write_text(json.dumps({"mcpServers": blocks}, indent=1))
