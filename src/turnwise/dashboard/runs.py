"""Takes paths, gives the runs found there, each with its index and its standing; new ones as they appear."""

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.config import CLIP_BOUNDS
from turnwise.dashboard.index import Index
from turnwise.dashboard.series import last_step, latest
from turnwise.tracking.ending import read_ending
from turnwise.tracking.lock import holder_elsewhere, is_held

logger = logging.getLogger(__name__)

DIED = (
    "its process ended without recording why: it was killed (kill -9, out of memory), or the machine went "
    "down; training.log ends with the last line it wrote"
)

_SHOWN = ("success/rate", "reward/mean", "validation/success")


@dataclass(frozen=True, slots=True)
class Run:
    """One run's folder and what is known of it."""

    name: str
    folder: Path
    index: Index

    @property
    def recipe(self) -> dict[str, Any]:
        """As the file has it: a run of another version may not fit today's recipe, and can still be seen."""
        return _json(self.folder / "recipe.json")

    @property
    def model(self) -> str:
        return str(self.recipe.get("model", {}).get("path", ""))

    @property
    def state(self) -> str:
        """`running`, `finished`, `stopped`, `halted` or `crashed`; `died` or `unknown` without a record."""
        return self.ended()[0]

    def ended(self) -> tuple[str, str]:
        """The state, and the reason for it."""
        return _state(self.folder, _json(self.folder / "summary.json"))

    def standing(self) -> dict[str, Any]:
        """What the page shows of every run, whichever is chosen."""
        recipe, summary = self.recipe, _json(self.folder / "summary.json")
        state, reason = self.ended()
        return {
            "name": self.name,
            "folder": str(self.folder),
            "state": state,
            "reason": reason,
            "last_step": last_step(self.index),
            "num_steps": recipe.get("run", {}).get("num_steps"),
            "heldout": summary.get("heldout_success", {}),
            "gain": summary.get("heldout_gain"),
            "seconds": summary.get("seconds"),
            "latest": latest(self.index, _SHOWN),
            "model": self.model,
            "algorithm": _algorithm(recipe),
            "health": recipe.get("health", {}),
            "clip": _clip(recipe),
        }


class Runs:
    """All runs under some paths: a run's folder itself, or a folder whose folders are runs."""

    def __init__(self, paths: Sequence[Path], cache: Path) -> None:
        self._paths = tuple(paths)
        self._cache = _writable(cache)
        self._runs: dict[str, Run] = {}
        self.look()
        if not self._runs:
            raise ValueError(f"no run in {', '.join(map(str, paths))}: none has a recipe.json")

    def look(self) -> bool:
        """Whether there are others than before."""
        found = [folder.resolve() for path in self._paths for folder in _folders(path)]
        before = set(self._runs)
        self._runs = {name: run for name, run in self._runs.items() if run.folder in found}
        known = {run.folder for run in self._runs.values()}
        for folder in dict.fromkeys(found):
            if folder not in known:
                name = _free_name(folder.name, self._runs)
                self._runs[name] = Run(name, folder, Index(folder, self._cache))
        return set(self._runs) != before

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __getitem__(self, name: str) -> Run:
        """LookupError: no such run."""
        return self._runs[name]


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "turnwise" / "view"


def _writable(cache: Path) -> Path:
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError:
        elsewhere = Path(tempfile.mkdtemp(prefix="turnwise-view-"))
        logger.warning("%s cannot be written to; the index is in %s", cache, elsewhere)
        return elsewhere


def _folders(path: Path) -> list[Path]:
    if (path / "recipe.json").is_file():
        return [path]
    if not path.is_dir():
        return []
    return sorted(each for each in path.iterdir() if (each / "recipe.json").is_file())


def _free_name(name: str, taken: Mapping[str, Run]) -> str:
    names = [name, *(f"{name}~{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def _json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_text("utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _state(folder: Path, summary: Mapping[str, Any]) -> tuple[str, str]:
    """The state, and why it is so; a run of a version without ended.json is judged by its summary."""
    lock = folder / "lock"
    if is_held(lock):
        return "running", ""
    ending = read_ending(folder / "ended.json")
    if ending is not None:
        return ending.how.value, ending.why
    if summary:
        stopped = str(summary.get("stopped") or "")
        return ("stopped" if stopped else "finished"), stopped
    if holder := holder_elsewhere(lock):
        return "unknown", f"held by {holder}; whether that still runs cannot be seen from here"
    return "died", DIED


def _algorithm(recipe: Mapping[str, Any]) -> str:
    algorithm = recipe.get("algorithm", {})
    words = (algorithm.get("preset"), algorithm.get("advantage"), algorithm.get("loss"))
    return " · ".join(str(word) for word in words if word)


def _clip(recipe: Mapping[str, Any]) -> list[float]:
    """The ratio's boundaries."""
    algorithm = recipe.get("algorithm", {})
    low, high = CLIP_BOUNDS.get(str(algorithm.get("loss", "clip")), CLIP_BOUNDS["clip"])
    given = (algorithm.get("clip_low"), algorithm.get("clip_high"))
    return [1 - (low if given[0] is None else given[0]), 1 + (high if given[1] is None else given[1])]
