"""Folders that a server may write to though mcp.json does not name them: home, temporary files, caches."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from turnwise.mcp.processes.launch import OWN_PROGRAM
from turnwise.mcp.processes.named_data import is_container
from turnwise.mcp.spec import Data, ServerSpec

_CACHES = {
    "npx": (".npm",),
    "bunx": (".bun",),
    "uvx": (".cache/uv", ".local/share/uv"),
    "uv": (".cache/uv", ".local/share/uv"),
    "pipx": (".cache/pipx", ".local/share/pipx", ".local/pipx"),
}
"""Where commands that install a server before they start it put it, below the home folder."""
_CACHE_VARIABLES = {"npx": "npm_config_cache", "uvx": "UV_CACHE_DIR", "uv": "UV_CACHE_DIR"}
"""Variables that name another folder for it."""
_OFFLINE = {
    "npx": {"npm_config_offline": "true"},
    "uvx": {"UV_OFFLINE": "1"},
    "uv": {"UV_OFFLINE": "1"},
}
"""Variables with which these commands use their cache alone, instead of waiting for a network."""


@dataclass(frozen=True, slots=True)
class Installer:
    """A command that installs a server before it starts it."""

    caches: tuple[Path, ...]
    """Folders into which it installs."""
    offline: Mapping[str, str]
    """Variables with which it uses only those."""


def is_enclosed(spec: ServerSpec) -> bool:
    """Return whether it runs inside walls.

    Our servers keep no files, remote ones run elsewhere, and a container, which is a wall itself, is started
    by a daemon outside of ours.
    """
    is_own = Path(spec.command or "").name == OWN_PROGRAM
    is_local = spec.command is not None and not is_own and not is_container(spec)
    return is_local and spec.options.data is Data.PRIVATE


def surroundings(spec: ServerSpec) -> tuple[Path, ...]:
    """Return the existing folders where programs write by default: home, working and temporary folders."""
    temporary = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 (made private)
    places = (_home(spec), spec.cwd or Path.cwd(), *temporary)
    return tuple(place.resolve() for place in places if place.is_dir())


def installer(spec: ServerSpec) -> Installer | None:
    """Return how the command installs the server; None if it installs nothing."""
    program = Path(spec.command or "").name
    if program not in _CACHES:
        return None
    caches = [_home(spec).resolve() / name for name in _CACHES[program]]
    if other := spec.env.get(_CACHE_VARIABLES.get(program, "")):
        caches.append(Path(other).resolve())
    return Installer(tuple(caches), _OFFLINE.get(program, {}))


def _home(spec: ServerSpec) -> Path:
    return Path(spec.env.get("HOME") or os.environ.get("HOME") or Path.home())
