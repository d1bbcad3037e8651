"""Folders that a server may write to though mcp.json does not name them: home, temporary files, caches."""

import os
import tempfile
from pathlib import Path

from turnwise.mcp.launch import OWN_PROGRAM
from turnwise.mcp.spec import Data, ServerSpec

_CACHES = {
    "npx": (".npm",),
    "bunx": (".bun",),
    "uvx": (".cache/uv", ".local/share/uv"),
    "uv": (".cache/uv", ".local/share/uv"),
    "pipx": (".cache/pipx", ".local/share/pipx", ".local/pipx"),
}
"""Where commands that install a server before they start it put it, below the home folder."""


def is_enclosed(spec: ServerSpec) -> bool:
    """Return whether it runs with private folders. Our servers keep no files; remote ones run elsewhere."""
    is_own = Path(spec.command or "").name == OWN_PROGRAM
    return spec.command is not None and not is_own and spec.options.data is Data.PRIVATE


def surroundings(spec: ServerSpec) -> tuple[Path, ...]:
    """Return the existing folders where programs write by default: home, working and temporary folders."""
    temporary = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 (made private)
    places = (_home(spec), spec.cwd or Path.cwd(), *temporary)
    return tuple(place.resolve() for place in places if place.is_dir())


def caches(spec: ServerSpec) -> tuple[Path, ...]:
    """Return the folders into which the command installs the server; empty if it installs nothing."""
    names = _CACHES.get(Path(spec.command or "").name, ())
    return tuple(_home(spec).resolve() / name for name in names)


def _home(spec: ServerSpec) -> Path:
    return Path(spec.env.get("HOME") or os.environ.get("HOME") or Path.home())
