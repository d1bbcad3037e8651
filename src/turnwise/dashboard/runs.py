"""The runs under some paths, each with its row, its index and its standing; new ones as they appear."""

import functools
import logging
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from turnwise.dashboard.headings import of_runs
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.run_row import RowReader, RunRow, Scalar, course_of, differing
from turnwise.dashboard.views.token_texts import Pieces
from turnwise.records.failed_starts import FailedStart, read_failed_starts
from turnwise.records.run_facts import RunFacts, ShownRecipe, read_facts
from turnwise.run.answer import answer_of
from turnwise.system.files.regular_files import make_private_folder

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

REPORT = "report.json"
"""What `turnwise explore` writes next to its task files."""

_REBUILD_SECONDS = 10.0
"""How long a request waits for an index that has to be rebuilt."""

_FIRST_SECONDS = 1.0
"""How long a request waits for the index of a run that nobody has opened yet."""


class ListedRun:
    """One run's folder. Its index is made at first need: most runs of a long list are never opened."""

    def __init__(self, name: str, folder: Path, cache: Path) -> None:
        self.name = name
        self.folder = folder
        self._cache = cache
        self._rows = RowReader(folder)
        self._index: Index | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the run has an index, which has to follow its files."""
        return self._index is not None

    @property
    def index(self) -> Index:
        """The run's index; the first access reads the run's files for about a second."""
        return self._opened(seconds=_FIRST_SECONDS)

    @property
    def facts(self) -> RunFacts:
        return read_facts(self.folder)

    @property
    def recipe(self) -> ShownRecipe:
        return self.facts.recipe

    @functools.cached_property
    def pieces(self) -> Pieces:
        """The texts of tokens, by the run's tokenizer if it is on this machine."""
        return Pieces(self.folder, self.recipe.model.path)

    def refresh(self, *, seconds: float) -> bool:
        """Update the index for about `seconds`; return whether anything changed.

        A failure becomes one of the index's problems.
        """
        return self._refreshed(self._opened(seconds=0), seconds)

    def asked(self, question: Callable[[], Answer]) -> Answer:
        """Answer a question from the index. If its file turns out to be damaged, rebuild it and ask again."""
        try:
            answer = question()
            if not self.is_open or not self.index.is_damaged:
                return answer
        except sqlite3.DatabaseError:
            if not self.is_open or not self.index.is_damaged:
                raise
        self.refresh(seconds=_REBUILD_SECONDS)
        return question()

    def row(self) -> RunRow:
        """The run's row in the list of runs. It is read from small files, without the index."""
        return self._rows.row()

    def count(self, *, deadline: float) -> None:
        """Count the run's cost for its row, until the deadline (time.monotonic)."""
        self._rows.count(deadline=deadline)

    def _opened(self, *, seconds: float) -> Index:
        with self._lock:
            if self._index is None:
                index = Index(self.folder, self._cache)
                if seconds:
                    self._refreshed(index, seconds)
                self._index = index
            return self._index

    def _refreshed(self, index: Index, seconds: float) -> bool:
        try:
            is_changed = index.refresh(seconds=seconds)
        except Exception as error:  # one bad folder must not stop the others
            words = error.strerror if isinstance(error, OSError) else error  # without the path
            is_changed = index.give_up(f"{type(error).__name__}: {words}")
            if is_changed:
                logger.warning("%s could not be read", self.folder, exc_info=error)
        return is_changed


class Runs:
    """All runs under some paths; a path is a run's folder or a folder that contains runs' folders."""

    def __init__(self, paths: Sequence[Path], cache: Path) -> None:
        self._paths = tuple(paths)
        self._cache = _writable(cache)
        self._runs: dict[str, ListedRun] = {}
        self._compared: dict[int, dict[str, Scalar]] = {}
        self._differing: list[str] = []
        self._failed: list[FailedStart] = []
        self.explored: dict[str, Path] = {}
        """Folders of explored tasks under the paths, by name."""
        self.look()
        if not self._runs and not self._failed and not self.explored:
            raise ValueError(f"no run in {', '.join(map(str, paths))}: none has a recipe.json")

    def look(self) -> bool:
        """Look for new and removed runs and failed starts; return whether there are others than before."""
        folders = [Path(os.path.realpath(folder)) for path in self._paths for folder in _folders(path)]
        before = set(self._runs)
        there = set(folders)
        self._runs = {name: run for name, run in self._runs.items() if run.folder in there}
        known = {run.folder for run in self._runs.values()}
        for folder in dict.fromkeys(folders):
            if folder not in known:
                name = _free_name(folder.name, self._runs)
                self._runs[name] = ListedRun(name, folder, self._cache)
        failed, self._failed = (
            self._failed,
            [start for path in self._paths for start in read_failed_starts(path)],
        )
        explored, self.explored = self.explored, _explored(self._paths)
        return set(self._runs) != before or self._failed != failed or self.explored != explored

    def failed_starts(self) -> list[dict[str, Any]]:
        """Starts that left no run, newest first."""
        return [asdict(start) for start in sorted(self._failed, key=lambda start: -start.time)]

    def rows(self) -> list[dict[str, Any]]:
        """Every run's row; `differs` has its values of the recipe's keys that differ between the runs."""
        rows = [(run.name, run.row()) for run in self]
        known = {id(row.recipe): row.recipe for _, row in rows}  # a row that is read again is a new object
        if known.keys() != self._compared.keys():
            self._differing, self._compared = differing(list(known.values())), known
        return [
            {
                "name": name,
                **row.shown,
                "answer": asdict(answer_of(course_of(row.shown))),
                "differs": row.values(self._differing),
            }
            for name, row in rows
        ]

    def listed(self) -> dict[str, Any]:
        """All rows, and the sentence on them."""
        rows = self.rows()
        only = rows[0]["answer"]["words"] if rows else ""
        return {
            "heading": of_runs([(row["name"], row["heldout"]["after"]) for row in rows], only),
            "runs": rows,
        }

    def __iter__(self) -> Iterator[ListedRun]:
        return iter(list(self._runs.values()))

    def __getitem__(self, name: str) -> ListedRun:
        """The run of this name. LookupError if there is none."""
        return self._runs[name]


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "turnwise" / "view"


def _writable(cache: Path) -> Path:
    try:
        make_private_folder(cache)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError:
        elsewhere = Path(tempfile.mkdtemp(prefix="turnwise-view-"))
        logger.warning("%s cannot be written to; the index is in %s", cache, elsewhere)
        return elsewhere


def _folders(path: Path) -> list[Path]:
    """The path itself if it is a run's folder, else the run folders directly in it."""
    if _is_run(path):
        return [path]
    try:
        return sorted(child for child in path.iterdir() if _is_run(child))
    except OSError:
        return []


def _explored(paths: Sequence[Path]) -> dict[str, Path]:
    """The paths and the folders in them that hold the report of an exploration."""
    found: dict[str, Path] = {}
    for path in paths:
        try:
            folders = [path, *sorted(path.iterdir())]
        except OSError:
            folders = [path]
        for folder in folders:
            if os.path.isfile(folder / REPORT) and not _is_run(folder):  # noqa: PTH113 (an unreadable one is no error)
                name = Path(os.path.realpath(folder)).name
                free = (f"{name}~{number}" for number in range(2, len(found) + 3))
                found[name if name not in found else next(free)] = folder
    return found


def _is_run(folder: Path) -> bool:
    """Whether the folder has a recipe.json of any file type. A folder we may not search counts too."""
    try:
        (folder / "recipe.json").lstat()
    except PermissionError:
        return folder.is_dir()
    except OSError:  # no recipe.json, or not a folder
        return False
    return True


def _free_name(name: str, taken: Mapping[str, ListedRun]) -> str:
    names = [name, *(f"{name}~{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
