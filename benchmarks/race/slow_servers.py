"""The built-in servers over the embedded world, with an added latency."""

import json
import sys
from pathlib import Path

DELAYED = Path(__file__).parents[1] / "servers" / "delayed.py"


def write_servers(file: Path, latency: int) -> None:
    """Write a server file with this latency in milliseconds; without keys, so that no provider is called."""
    set_latency(file, latency)
    blocks = {}
    for name in ("fmp", "polygon", "tavily", "python", "slack"):
        args = [str(DELAYED), str(_delay_of(file)), sys.executable, "-m", "turnwise", "serve", name]
        # in an episode's private copy of the folder, a changed latency would not be seen
        blocks[name] = {"command": sys.executable, "args": args, "turnwise": {"data": "real"}}
    file.write_text(json.dumps({"mcpServers": blocks}, indent=1))


def set_latency(file: Path, latency: int) -> None:
    """Set the latency of the servers in `file` from the next result on, whether or not they already run."""
    delay = _delay_of(file)
    fresh = delay.with_suffix(".new")
    fresh.write_text(str(latency))
    fresh.rename(delay)


def _delay_of(file: Path) -> Path:
    return file.resolve().with_suffix(".delay")
