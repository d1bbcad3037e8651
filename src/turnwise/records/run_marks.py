"""Marks of the runs that this user made or agreed to, kept where no run's folder can bring them along.

A run's folder may come from somebody else, and its recipe names what would be started: files with commands,
Python modules, addresses that get keys. A mark is a digest of what a recipe names.
"""

import hashlib
import importlib.machinery
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.config import EngineConfig, Recipe, RewardConfig, ToolsConfig, UserConfig
from turnwise.system.environment import user_folder
from turnwise.system.files.regular_files import make_private_folder, open_to_append
from turnwise.system.python_functions import is_given

logger = logging.getLogger(__name__)

_OF_A_JUDGE = ("base_url", "key_variable", "cache_dir")
"""The judge's options that determine where a key is sent and where files are written."""


@dataclass(frozen=True, slots=True)
class Named:
    """One file, module, server or address that a recipe would start or use."""

    key: str
    """The recipe key that names it."""
    words: str
    """Its full description, as shown to the user."""


def is_made_here(sources: Sequence[Named]) -> bool:
    """Whether this user made a run that names the same files, modules and addresses, or there are none.

    The content of mcp.json is not part of the mark: that file is the user's own and may change.
    """
    return not sources or _has_mark(_digest("made", sources))


def is_agreed_to(named: Sequence[Named]) -> bool:
    """Whether this user has agreed to exactly these before."""
    return not named or _has_mark(_digest("agreed", named))


def remember_made(sources: Sequence[Named]) -> None:
    """Mark a recipe of these sources as this user's own. If no mark can be written, a resume asks."""
    if sources:
        _keep_mark(_digest("made", sources))


def remember_agreed(named: Sequence[Named]) -> None:
    _keep_mark(_digest("agreed", named))


def named_besides_servers(recipe: Recipe) -> tuple[Named, ...]:
    """What the recipe itself would start or use; the servers' commands are in its mcp.json."""
    own = [("rewards", part.name) for part in recipe.rewards if ":" in part.name]
    own += [("trackers", tracker.kind) for tracker in recipe.trackers if ":" in tracker.kind]
    own += [("tools.functions", name) for name in recipe.tools.functions]
    own += [("environment", recipe.environment)] if recipe.environment else []
    addresses = _addresses(recipe.engine, recipe.user, recipe.rewards)
    return (*_live_and_recorded(recipe.tools), *_modules(own), *addresses)


def sources_of(recipe: Recipe) -> list[Named]:
    """What the recipe names, for the mark of its run: its mcp.json, not the commands there."""
    mcp = [] if recipe.tools.mcp is None else [Named("tools.mcp", str(recipe.tools.mcp))]
    return [*mcp, *named_besides_servers(recipe)]


def _digest(why: str, named: Iterable[Named]) -> str:
    facts = sorted({(item.key, item.words) for item in named})
    return hashlib.sha256(json.dumps([why, facts]).encode()).hexdigest()


def _has_mark(name: str) -> bool:
    folder = _folder()
    return folder is not None and os.path.lexists(folder / name)


def _keep_mark(name: str) -> None:
    folder = _folder()
    try:
        if folder is not None:
            make_private_folder(folder)
            open_to_append(folder / name).close()
    except (OSError, ValueError) as error:
        logger.warning("no mark can be kept that this run is yours, so it will be asked about: %s", error)


def _folder() -> Path | None:
    """`$XDG_STATE_HOME/turnwise/trusted`, by default in `~/.local/state`; None if there is no home."""
    state = user_folder("XDG_STATE_HOME", "~/.local/state")
    return None if state is None else state / "trusted"


def _live_and_recorded(tools: ToolsConfig) -> Iterator[Named]:
    if tools.cassette is not None and tools.cassette_mode != "replay":
        yield Named("tools.cassette", f"appends tool calls to {tools.cassette}")
    for name in () if tools.is_replayed else tools.live:
        may_write = " and may write to it" if name in tools.live_writes else ""
        yield Named("tools.live", f"server {name!r} uses your account at its provider{may_write}")


def _modules(objects: Iterable[tuple[str, str]]) -> Iterator[Named]:
    for key, name in objects:
        if is_given(name):
            continue  # the caller of this process has to give the object: a folder cannot bring it along
        module = name.partition(":")[0]
        place = _found_in(module)
        yield Named(key, f"{name}, a Python module from {place or 'nowhere: it is not found'}")


def _found_in(module: str) -> str:
    """The file or folder of a module's top-level package; empty if not found. Nothing is imported."""
    spec = importlib.machinery.PathFinder.find_spec(module.partition(".")[0])
    place = "" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return os.path.realpath(place) if place else ""


def _addresses(engine: EngineConfig, user: UserConfig, rewards: Iterable[RewardConfig]) -> Iterator[Named]:
    if engine.kind == "remote":
        url = engine.remote.url
        yield Named("engine.remote.url", f"the engine at {url} gets TURNWISE_ENGINE_TOKEN")
    if user.url:
        yield Named("user.url", f"the user's model at {user.url} gets {user.key_variable}")
    for part in rewards:
        options = {name: part.options[name] for name in _OF_A_JUDGE if name in part.options}
        if part.name == "judge" and options:
            words = ", ".join(f"{name} {value}" for name, value in options.items())
            yield Named("rewards", f"a judge with {words}")
