"""What an episode could change outside of itself through a server, and whether the user has agreed to it."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from turnwise.mcp.processes.named_data import container_folders, has_container_network, is_container
from turnwise.mcp.spec import Data, ServerSpec
from turnwise.system.secret_values import is_secret_name

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
    """Whether the user lets episodes change it, or the tools are their own functions."""
    is_enclosed: bool = False
    """Whether the server's processes are walled in."""
    consent: str = '{"data": "real"}'
    """The entry's `turnwise` block that allows it."""
    no_walls: str = ""
    """That the server's processes are not walled in, in words; empty for our own servers and remote ones."""
    network: str = ""
    """Whether the server reaches the network, in words; empty for our own servers and remote ones."""

    @property
    def is_refused(self) -> bool:
        return bool(self.writers and self.outside) and not self.is_allowed

    def __str__(self) -> str:
        return "; ".join(filter(None, (*self._changes(), self.no_walls, self.network)))

    def _changes(self) -> Iterator[str]:
        if not self.writers:
            yield "its tools only read"
        elif self.outside:
            agreed = "as you allow" if self.is_allowed else "without leave"
            yield f"episodes could change {' and '.join(self.outside)}, {agreed}"
        elif self.is_enclosed:
            private = f"private copies of {', '.join(self.private)}" if self.private else "none of your files"
            yield f"episodes change {private}; all other folders are private or read-only"
        else:
            yield "mcp.json names nothing that its tools could change"


def exposure(
    spec: ServerSpec,
    writers: Sequence[str],
    *,
    is_own: bool,
    private: Sequence[str] = (),
    not_private: str = "",
    is_enclosed: bool = False,
    network: bool | Literal["real"] = False,
) -> Exposure:
    """Return what a server's tools could change. `is_own`: it keeps episodes apart itself, as ours do.

    `network` is that of its processes, which it may share with other servers.
    """
    if spec.service is not None:
        return Exposure(spec.name, tuple(writers), ("whatever your functions change",), is_allowed=True)
    is_real = spec.options.data is Data.REAL
    files = () if is_own else tuple(_files(spec, not_private, is_real=is_real))
    is_open = bool(network) if is_enclosed else has_container_network(spec) or not is_container(spec)
    services = tuple(_services(spec, is_named=bool(network))) if is_open and not is_own else ()
    is_bare = spec.url is None and not is_own and not is_enclosed
    words = "" if spec.url is not None or is_own or files else "open network" if is_open else "no network"
    return Exposure(
        spec.name,
        tuple(writers),
        (*files, *services),
        tuple(private),
        is_allowed=is_real or (not files and (network == "real" or spec.options.network == "real")),
        is_enclosed=is_enclosed,
        consent='{"network": "real"}' if services and not files and spec.url is None else '{"data": "real"}',
        no_walls="" if not is_bare else "no walls but its container" if is_container(spec) else "no walls",
        network=words,
    )


def refusal(exposed: Exposure) -> str:
    """Return why a run does not start, and the lines of mcp.json that would allow it."""
    shown = ", ".join(exposed.writers[:_SHOWN_TOOLS]) + (" …" if len(exposed.writers) > _SHOWN_TOOLS else "")
    deny = json.dumps(list(exposed.writers))
    return (
        f"server {exposed.server!r}: episodes could change {' and '.join(exposed.outside)}, "
        f"by {len(exposed.writers)} tools that may write ({shown}).\n"
        f"  Add one of these to its entry in mcp.json:\n"
        f'    "turnwise": {exposed.consent}    it is mine, let episodes write to it\n'
        f'    "turnwise": {{"deny": {deny}}}    keep these tools from the model'
    )


def _files(spec: ServerSpec, not_private: str, *, is_real: bool) -> Iterator[str]:
    if spec.url is not None:
        yield f"what the server at {urlsplit(spec.url).hostname} keeps"
    elif not_private:
        yield f"the real files and services of this machine ({not_private})"
    elif mounted := container_folders(spec):
        yield f"the real files under {', '.join(mounted)}, which {spec.command} mounts into its container"
    elif is_real:
        yield "the real files and services that it reaches"


def _services(spec: ServerSpec, *, is_named: bool) -> Iterator[str]:
    """Yield what a server with an open network could change there."""
    if spec.url is not None:
        return
    names = [name for name, value in spec.env.items() if value and is_secret_name(name)]
    if names:
        yield f"what {', '.join(sorted(names))} gives access to"
    hosts = {host for text in (*spec.args, *spec.env.values()) if (host := _host(text))}
    if hosts:
        yield f"the service at {', '.join(sorted(hosts))}"
    if is_named or has_container_network(spec):
        yield "whatever it reaches over the network"


def _host(text: str) -> str:
    """Return the host of a URL or a database address; empty if there is none."""
    found = re.search(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+", text)
    try:
        return urlsplit(found[0]).hostname or "" if found else ""
    except ValueError:
        return ""
