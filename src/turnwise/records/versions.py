"""What a run was run with: Python, platform, packages, commit and seed."""

import functools
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.system.files.regular_files import Damaged, read_table


def versions_now(seed: int) -> dict[str, Any]:
    commit = _git("rev-parse", "HEAD")
    return {
        "turnwise": importlib.metadata.version("turnwise"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "num_cpus": os.cpu_count(),
        "git_commit": commit or None,
        "is_git_clean": None if commit is None else not _git("status", "--porcelain"),
        "seed": seed,
        "packages": _packages(),
    }


@functools.cache
def _packages() -> dict[str, str]:
    # `metadata` is read once per package: every access parses it again
    known = [distribution.metadata for distribution in importlib.metadata.distributions()]
    return dict(sorted((distribution["Name"], distribution["Version"]) for distribution in known))


def read_versions(path: Path) -> dict[str, Any]:
    try:
        versions = read_table(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    if not isinstance(versions.get("packages", {}), dict) or not isinstance(versions.get("seed", 0), int):
        raise Damaged(path, "`packages` must be an object and `seed` a whole number")
    return versions


def is_made_by_us(path: Path) -> bool:
    """Whether a versions.json is that of a run."""
    try:
        return {"turnwise", "python", "packages"} <= read_table(path).keys()
    except (Damaged, FileNotFoundError):
        return False


def recipe_file(path: Path) -> str:
    """The name of the file that the run's recipe was read from; empty if it is not known."""
    try:
        return str(read_table(path).get("recipe_file", ""))
    except (Damaged, FileNotFoundError):
        return ""


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences that may change numerical results, as `name old → new`."""
    pairs = {name: (before.get(name), now.get(name)) for name in ("python", "machine", "git_commit")}
    packages = (before.get("packages", {}), now.get("packages", {}))
    for name in sorted(packages[0].keys() | packages[1].keys()):
        pairs[name] = (packages[0].get(name), packages[1].get(name))
    return [f"{name} {old} → {new}" for name, (old, new) in pairs.items() if old != new]


def _git(*arguments: str) -> str | None:
    """The output of git in the working directory; None if git fails or is missing."""
    try:
        asked = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
