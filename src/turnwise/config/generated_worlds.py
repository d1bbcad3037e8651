"""`worlds:250` and `worlds:250:SEED` in place of an mcp.json: servers that are generated."""

import re
from dataclasses import dataclass
from pathlib import Path

_FORM = re.compile(r"worlds:([1-9]\d{0,5})(?::(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class GeneratedWorlds:
    num: int
    seed: int


def is_generated(source: str | Path) -> bool:
    return str(source).startswith("worlds:")


def generated_worlds(source: str | Path | None) -> GeneratedWorlds | None:
    """Return which worlds are meant, None for a file; ValueError for `worlds:` and anything but numbers."""
    if source is None or not is_generated(source):
        return None
    match = _FORM.fullmatch(str(source))
    if match is None:
        raise ValueError(f"{source}: expected worlds:NUM or worlds:NUM:SEED, for example worlds:250")
    return GeneratedWorlds(int(match[1]), int(match[2] or 0))
