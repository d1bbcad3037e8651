"""What an episode could change outside of itself through a server, and whether the user has agreed to it."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from turnwise.mcp.named_data import container_folders
from turnwise.mcp.spec import Data, ServerSpec
from turnwise.runtime.secret_values import is_secret_name

_SHOWN_TOOLS = 6


@dataclass(frozen=True, slots=True)
class Exposure:
    """What an episode can change through one server."""

    server: str
    writers: tuple[str, ...]
    """Tools that may write: those not marked read-only."""
    outside: tuple[str, ...] = ()
    """What the writers could change outside the episode, in words; empty if nothing."""
    private: tuple[str, ...] = ()
    """Folders of which every episode has its own copy."""
    is_allowed: bool = False
    """Whether the user lets episodes change it: `data` is `real`, or the tools are their own functions."""
    is_enclosed: bool = False
    """Whether all folders that the server's process can reach are private or read-only."""
    leak: str = ""
    """Why the server's process can write to folders that are not private; empty if it cannot."""

    @property
    def is_refused(self) -> bool:
        return bool(self.writers and self.outside) and not self.is_allowed

    def __str__(self) -> str:
        if not self.writers:
            return "its tools only read"
        if self.outside:
            agreed = "as you allow" if self.is_allowed else "without leave"
            return f"episodes could change {' and '.join(self.outside)}, {agreed}"
        if self.is_enclosed:
            private = f"private copies of {', '.join(self.private)}" if self.private else "none of your files"
            return f"episodes change {private}; all other folders are private or read-only"
        leak = f"; its writes to other folders are not contained: {self.leak}" if self.leak else ""
        if self.private:
            return f"episodes change private copies of {', '.join(self.private)}{leak}"
        return f"mcp.json names nothing that its tools could change{leak}"


def exposure(
    spec: ServerSpec,
    writers: Sequence[str],
    *,
    is_own: bool,
    private: Sequence[str] = (),
    not_private: str = "",
    is_enclosed: bool = False,
    leak: str = "",
) -> Exposure:
    """Return what a server's tools could change. `is_own`: it keeps episodes apart itself, as ours do."""
    if spec.service is not None:
        return Exposure(spec.name, tuple(writers), ("whatever your functions change",), is_allowed=True)
    is_real = spec.options.data is Data.REAL
    outside = () if is_own else tuple(_outside(spec, not_private, is_real=is_real))
    return Exposure(
        spec.name,
        tuple(writers),
        outside,
        tuple(private),
        is_allowed=is_real,
        is_enclosed=is_enclosed,
        leak="" if is_own else leak,
    )


def refusal(exposed: Exposure) -> str:
    """Return why a run does not start, and the lines of mcp.json that would allow it."""
    shown = ", ".join(exposed.writers[:_SHOWN_TOOLS]) + (" …" if len(exposed.writers) > _SHOWN_TOOLS else "")
    deny = json.dumps(list(exposed.writers))
    return (
        f"server {exposed.server!r}: episodes could change {' and '.join(exposed.outside)}, "
        f"by {len(exposed.writers)} tools that may write ({shown}).\n"
        f"  Add one of these to its entry in mcp.json:\n"
        f'    "turnwise": {{"data": "real"}}    it is mine, let episodes write to it\n'
        f'    "turnwise": {{"deny": {deny}}}    keep these tools from the model'
    )


def _outside(spec: ServerSpec, not_private: str, *, is_real: bool) -> Iterator[str]:
    if spec.url is not None:
        yield f"what the server at {urlsplit(spec.url).hostname} keeps"
        return
    if not_private:
        yield f"the real files ({not_private})"
    elif mounted := container_folders(spec):
        yield f"the real files under {', '.join(mounted)}, which {spec.command} mounts into its container"
    elif is_real:
        yield "the real files that its command names"
    names = [name for name, value in spec.env.items() if value and is_secret_name(name)]
    if names:
        yield f"what {', '.join(sorted(names))} gives access to"
    hosts = {host for text in (*spec.args, *spec.env.values()) if (host := _host(text))}
    if hosts:
        yield f"the service at {', '.join(sorted(hosts))}"


def _host(text: str) -> str:
    """Return the host of a URL or a database address; empty if there is none."""
    found = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+", text)
    try:
        return urlsplit(found[0]).hostname or "" if found else ""
    except ValueError:
        return ""
