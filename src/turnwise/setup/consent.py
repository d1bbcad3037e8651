"""What a run's recipe would start or use, the commands in its mcp.json included."""

import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.config import Recipe
from turnwise.config.generated_worlds import is_generated
from turnwise.mcp.spec import blocks_of
from turnwise.records.run_marks import (
    Named,
    is_agreed_to,
    is_made_here,
    named_besides_servers,
    remember_agreed,
    sources_of,
)
from turnwise.system.files.regular_files import read_bytes
from turnwise.worlds.generated.world import is_world_name
from turnwise.worlds.market.live.providers import ACCESS
from turnwise.worlds.market.services import SERVERS

logger = logging.getLogger(__name__)

_HARMLESS_VARIABLES = {"TURNWISE_WORLD_SEED", *(access.key_variable for access in ACCESS.values())}
"""Variables that our own servers may be given. Addresses are not allowed: a key would be sent there."""

Consent = Callable[[str], None]
"""Asks the user this question; ValueError if they refuse, or if nobody can be asked."""


def require_consent(
    run: Path, recipe: Recipe, changed: Recipe, overridden: Sequence[str], consent: Consent
) -> None:
    """Ask the user if the run was made elsewhere and would start what they have not agreed to.

    `changed` is the run's recipe with the `overridden` keys changed. The agreement is remembered.
    """
    if named := not_agreed_to(recipe, changed, overridden):
        consent(consent_question(run, named))
        remember_agreed(named)


def not_agreed_to(recipe: Recipe, changed: Recipe, overridden: Sequence[str]) -> tuple[Named, ...]:
    """Return what a run's recipe would start or use without this user's consent; empty for their own run.

    `changed` is the recipe with the overrides, `overridden` their keys: what an override names needs no
    consent. Raises ValueError for a bad mcp.json.
    """
    if is_made_here(sources_of(recipe)):
        return ()
    named = tuple(item for item in named_in(changed) if not _is_replaced(item.key, overridden))
    return () if is_agreed_to(named) else named


def consent_question(run: Path, named: Sequence[Named]) -> str:
    # one line per item: a line break in a command could pass for the end of the list
    lines = "\n".join(f"  {item.key}: {item.words}".replace("\n", "\\n") for item in named)
    return f"{run} was not made by you on this machine. Its recipe would start or use:\n{lines}"


def keep_agreement(before: Recipe, after: Recipe) -> None:
    """Extend the user's agreement to their changes of a recipe that they had agreed to before."""
    try:
        if not is_made_here(sources_of(before)) and is_agreed_to(named_in(before)):
            remember_agreed(named_in(after))
    except ValueError as error:  # an override replaced an mcp.json that does not exist
        logger.info("nothing was agreed to: %s", error)


def _is_replaced(key: str, overridden: Sequence[str]) -> bool:
    """Return whether an override sets this key or the section that contains it."""
    return any(key == other or key.startswith(f"{other}.") for other in overridden)


def named_in(recipe: Recipe) -> tuple[Named, ...]:
    """Return what the recipe names, except our own servers and rewards; ValueError for a bad mcp.json."""
    tools = recipe.tools
    file = None if tools.mcp is None or tools.is_replayed or is_generated(tools.mcp) else tools.mcp
    blocks = {} if file is None else _blocks(file)
    foreign = {name: block for name, block in blocks.items() if not _is_ours(block)}
    servers = (Named("tools.mcp", f"server {name!r}: {_command(block)}") for name, block in foreign.items())
    return (*servers, *named_besides_servers(recipe))


def _blocks(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the servers of an mcp.json that are not disabled."""
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
    """Return whether the entry is `turnwise serve NAME` on the embedded world and nothing else."""
    match block.get("args"):
        case ["serve", str(name)] | ["serve", str(name), "--backend", "embedded"]:
            is_ours = name in SERVERS or is_world_name(name)
            is_plain = block.get("command") == "turnwise" and is_ours
            has_more = bool({"cwd", "url", "headers"} & block.keys())
            env = block.get("env", {})
            return is_plain and not has_more and isinstance(env, dict) and env.keys() <= _HARMLESS_VARIABLES
    return False


def _command(block: Mapping[str, Any]) -> str:
    """Return the command as the file has it: variables are not expanded, so that no secret is shown."""
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
