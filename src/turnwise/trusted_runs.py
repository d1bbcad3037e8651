"""What a run's recipe would start or contact, and whether that may be done without asking.

A run's folder may come from somebody else. Its recipe names commands, Python modules and addresses, and
whoever chats with the run, evaluates or resumes it would start them. A run that this user made is known by a mark
in the user's own state folder, which no run's folder can bring along. A mark is a digest of what a recipe names.
"""

import hashlib
import importlib.machinery
import json
import logging
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.config import Recipe
from turnwise.mcp.spec import blocks_of
from turnwise.regular_files import open_to_append, read_bytes
from turnwise.servers.live.providers import ACCESS
from turnwise.servers.services import SERVERS

logger = logging.getLogger(__name__)

_HARMLESS_VARIABLES = {"TURNWISE_WORLD_SEED", *(access.key_variable for access in ACCESS.values())}
"""What the environment of our own servers may hold. Addresses are not among them: a key would go there."""

_OF_A_JUDGE = ("base_url", "key_variable", "cache_dir")
"""Options of the judge that say where a key goes and where files are written."""


@dataclass(frozen=True, slots=True)
class Named:
    """One thing that a recipe would start or contact."""

    key: str
    """The key of the recipe that names it."""
    words: str
    """What it is, in full."""


def named_in(recipe: Recipe) -> tuple[Named, ...]:
    """Everything but our own servers and rewards. ValueError if its mcp.json cannot be read."""
    tools = recipe.tools
    blocks = {} if tools.mcp is None or tools.is_replayed else _blocks(tools.mcp)
    foreign = {name: block for name, block in blocks.items() if not _is_ours(block)}
    servers = (Named("tools.mcp", f"server {name!r}: {_command(block)}") for name, block in foreign.items())
    return (*servers, *_live_and_recorded(recipe), *_modules(recipe), *_addresses(recipe))


def is_made_here(recipe: Recipe) -> bool:
    """Whether it names nothing, or this user made a run that names the same files, modules and addresses.

    What stands in the mcp.json may have changed since: that file is the user's own.
    """
    sources = _sources(recipe)
    return not sources or _has_mark(_digest("made", sources))


def is_agreed_to(named: Sequence[Named]) -> bool:
    """Whether this user was asked about exactly these before, and agreed."""
    return not named or _has_mark(_digest("agreed", named))


def remember_made(recipe: Recipe) -> None:
    """This user makes a run by this recipe. Where no mark can be kept, the run will be asked about."""
    if sources := _sources(recipe):
        _keep_mark(_digest("made", sources))


def remember_agreed(named: Sequence[Named]) -> None:
    _keep_mark(_digest("agreed", named))


def _sources(recipe: Recipe) -> list[Named]:
    """As `named_in`, with the mcp.json itself in the place of what stands in it."""
    mcp = [] if recipe.tools.mcp is None else [Named("tools.mcp", str(recipe.tools.mcp))]
    return [*mcp, *_live_and_recorded(recipe), *_modules(recipe), *_addresses(recipe)]


def _digest(why: str, named: Iterable[Named]) -> str:
    facts = sorted({(each.key, each.words) for each in named})
    return hashlib.sha256(json.dumps([why, facts]).encode()).hexdigest()


def _has_mark(name: str) -> bool:
    folder = _folder()
    return folder is not None and os.path.lexists(folder / name)


def _keep_mark(name: str) -> None:
    folder = _folder()
    try:
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            open_to_append(folder / name).close()
    except (OSError, ValueError) as error:
        logger.warning("no mark can be kept that this run is yours, so it will be asked about: %s", error)


def _folder() -> Path | None:
    """`$XDG_STATE_HOME/turnwise/trusted`, or under `~/.local/state`; None for a user without a home."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    try:
        root = Path(configured) if configured else Path("~/.local/state").expanduser()
    except RuntimeError:
        return None
    return root / "turnwise" / "trusted"


def _live_and_recorded(recipe: Recipe) -> Iterator[Named]:
    tools = recipe.tools
    if tools.cassette is not None and tools.cassette_mode != "replay":
        yield Named("tools.cassette", f"appends tool calls to {tools.cassette}")
    for name in () if tools.is_replayed else tools.live:
        may_write = " and may write to it" if name in tools.live_writes else ""
        yield Named("tools.live", f"server {name!r} uses your account at its provider{may_write}")


def _blocks(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The servers of an mcp.json that would be started."""
    try:
        content = read_bytes(path, follows_links=True)
    except FileNotFoundError:
        raise ValueError(f"tools.mcp: {path}: no such file") from None
    found = blocks_of(content, f"tools.mcp: {path}")
    return {
        name: block
        for name, block in found.items()
        if isinstance(block, dict) and block.get("disabled") is not True
    }


def _is_ours(block: Mapping[str, Any]) -> bool:
    """Whether it is `turnwise serve NAME` on the embedded world and nothing else."""
    match block.get("args"):
        case ["serve", str(name)] | ["serve", str(name), "--backend", "embedded"]:
            is_plain = block.get("command") == "turnwise" and name in SERVERS
            has_more = bool({"cwd", "url", "headers"} & block.keys())
            env = block.get("env", {})
            return is_plain and not has_more and isinstance(env, dict) and env.keys() <= _HARMLESS_VARIABLES
    return False


def _command(block: Mapping[str, Any]) -> str:
    """As the file has it: variables are not filled in, so that no secret of the user's is shown."""
    if "url" in block:
        headers = "".join(f", header {name}: {value}" for name, value in _pairs(block.get("headers")))
        return f"{block['url']}{headers}"
    args = block.get("args", [])
    words = [str(block.get("command", "")), *(map(str, args) if isinstance(args, list) else [str(args)])]
    env = "".join(f"{name}={shlex.quote(str(value))} " for name, value in _pairs(block.get("env")))
    place = f" in {block['cwd']}" if "cwd" in block else ""
    return f"{env}{shlex.join(words)}{place}"


def _pairs(given: Any) -> list[tuple[str, Any]]:
    return list(given.items()) if isinstance(given, dict) else []


def _modules(recipe: Recipe) -> Iterator[Named]:
    own = [("rewards", part.name) for part in recipe.rewards if ":" in part.name]
    own += [("trackers", tracker.kind) for tracker in recipe.trackers if ":" in tracker.kind]
    for key, name in own:
        module = name.partition(":")[0]
        place = _found_in(module)
        yield Named(key, f"{name}, a Python module from {place or 'nowhere: it is not found'}")


def _found_in(module: str) -> str:
    """The file or folder that a module's first part would be imported from. Nothing is imported."""
    spec = importlib.machinery.PathFinder.find_spec(module.partition(".")[0])
    if spec is None:
        return ""
    return str(spec.origin or next(iter(spec.submodule_search_locations or ()), ""))


def _addresses(recipe: Recipe) -> Iterator[Named]:
    if recipe.engine.kind == "remote":
        url = recipe.engine.remote.url
        yield Named("engine.remote.url", f"the engine at {url} gets TURNWISE_ENGINE_TOKEN")
    for part in recipe.rewards:
        given = {name: part.options[name] for name in _OF_A_JUDGE if name in part.options}
        if part.name == "judge" and given:
            words = ", ".join(f"{name} {value}" for name, value in given.items())
            yield Named("rewards", f"a judge with {words}")
