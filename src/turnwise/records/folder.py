"""A run's folder: its paths, its metrics line by line, its log, and one writer at a time.

    runs/cpu-20261115-070000/
      recipe.json  versions.json            what is run, from which file, by which packages, commit and seed
      metrics.jsonl  training.log           as the run goes
      trajectories/step-000001.jsonl        every episode
      tokens/step-000001.jsonl              ratio, advantage and clipping of every token of some episodes
      checkpoints/  evaluations/  summary.json
      warm/                                 the model after the warm start, if the recipe has one
      dropped/                              figures and episodes of steps that a resumed run played again
      ended.json                            how and why the run ended; absent while it runs
      wandb/  tensorboard/                  what the recipe's trackers keep here
      lock                                  the process that writes to the folder

No secret is written here: a recipe holds none, and the environment of mcp.json's servers is not copied.
"""

import datetime
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from turnwise.config import Recipe, stored_recipe
from turnwise.records.dropped_steps import DroppedSteps, move_to_dropped
from turnwise.records.ending import Ending, read_ending, write_ending
from turnwise.records.run_log import RunLog
from turnwise.records.run_marks import is_made_here, remember_made, sources_of
from turnwise.records.trackers.tracker import check
from turnwise.records.trackers.trackers import NO_TRACKERS, start_trackers
from turnwise.records.versions import changed, read_versions, versions_now
from turnwise.system.environment import known_redaction
from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.json_lines import Lines
from turnwise.system.files.lock import Lock
from turnwise.system.files.regular_files import Damaged, make_private_folder, names_in, read_table
from turnwise.system.files.tree_removal import remove_tree
from turnwise.system.terminal import printable

logger = logging.getLogger(__name__)

_STEP = re.compile(r"step-(\d{6,})\.(?!.*\.part$)")


class RunFolder:
    """One run on disk. `create` and `open` lock it for writing until `close`; `read` takes no lock.

    A created folder is removed if its `with` block fails before `keep`: a failed start leaves nothing behind.
    """

    def __init__(self, path: Path, lock: Lock | None, *, is_other_rank: bool = False) -> None:
        self.path = path
        self.is_kept = True
        self._lock = lock
        self._is_first = False
        self._is_other_rank = is_other_rank
        self._lines = Lines(path / "metrics.jsonl") if lock is not None else None
        self._log = RunLog(path / "training.log", known_redaction()) if lock is not None else None
        self.trackers = NO_TRACKERS

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        recipe: Recipe,
        *,
        is_dated: bool = True,
        recipe_file: str = "",
        with_files: Callable[[Recipe, Path], Recipe] = lambda recipe, path: recipe,
    ) -> Self:
        """Create the folder `root/name-date-time`, or `root/name` if not `is_dated`.

        `recipe_file` is the name of the file that the recipe was read from; `turnwise runs` lists it.
        `with_files` writes files that the recipe needs to the folder, and returns the recipe that names them.
        ValueError if `root/name` exists, or if a tracker's library is missing.
        """
        check(recipe.trackers)
        is_first = not root.exists()
        path = _new_folder(root, name) if is_dated else _exact_folder(root, name)
        for part in ("checkpoints", "evaluations", "tokens", "trajectories"):
            (path / part).mkdir()
        folder = cls(path, Lock(path / "lock"))
        folder.is_kept, folder._is_first = False, is_first
        recipe = with_files(recipe, path)
        remember_made(sources_of(recipe))
        write_json(path / "versions.json", {"recipe_file": recipe_file, **versions_now(recipe.seed)})
        write_json(path / "recipe.json", recipe.model_dump(mode="json"))  # last: this file makes it a run
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run to resume it. ValueError if there is none, or if another process writes to it."""
        _check_run(path)
        _check_writable(path)
        folder = cls(path, Lock(path / "lock"))
        before = read_versions(path / "versions.json")
        differences = changed(before, versions_now(before.get("seed", 0)))
        if differences:
            logger.warning("not bit for bit as begun, since these changed: %s", ", ".join(differences))
        return folder

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open a run for reading, also while another process writes to it."""
        _check_run(path)
        return cls(path, None)

    @classmethod
    def of_other_rank(cls, path: Path) -> Self:
        """The run's folder for a rank that does not write it.

        What this process logs is dropped, since the writing process logs the same.
        """
        _check_run(path)
        return cls(path, None, is_other_rank=True)

    @property
    def is_written_here(self) -> bool:
        """False for a rank other than the one that writes the run."""
        return not self._is_other_rank

    def close(self, *, is_hasty: bool = False) -> None:
        """Close the files and release the lock; idempotent. `is_hasty` gives trackers at most 3 s."""
        if self._lock is not None:
            assert self._lines is not None
            assert self._log is not None
            self.trackers.close(is_hasty=is_hasty)  # first: it logs lost records
            self._lines.close()
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_hasty=kind is not None)
        if kind is not None and not self.is_kept:
            if reason := remove_tree(self.path):
                logger.warning("%s cannot be removed: %s", self.path, reason)
            if self._is_first and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()

    def keep(self) -> None:
        """Keep the folder from now on, however the run ends: everything was checked, and episodes begin."""
        self.is_kept = True

    # --- paths -------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations"

    @property
    def warm_model(self) -> Path:
        """The model that RL starts from, if the run begins with a warm start."""
        return self.path / "warm"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def user_replies(self) -> Path:
        """What the model of [user] said, so that a resumed run meets the same users."""
        return self.path / "user_replies"

    @property
    def tokenizer(self) -> Path:
        """The run's copy of the tokenizer, so that its token ids can be decoded without the model."""
        return self.path / "tokenizer.json"

    def trajectories(self, step: int) -> Path:
        """The file of the step's episodes."""
        return self.path / "trajectories" / f"step-{step:06d}.jsonl"

    def tokens(self, step: int) -> Path:
        """The file of the step's token values: log-probs, ratio, advantage and clipping."""
        return self.path / "tokens" / f"step-{step:06d}.jsonl"

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe, as stored."""
        file = self.path / "recipe.json"
        return stored_recipe(read_table(file), str(file))

    def change_recipe(self, recipe: Recipe) -> None:
        """Store another recipe for the resumed run, such as one with more steps."""
        before = self.recipe
        if recipe != before:
            if is_made_here(sources_of(before)):
                remember_made(sources_of(recipe))
            write_json(self.path / "recipe.json", recipe.model_dump(mode="json"))

    # --- while the run goes ------------------------------------------------------------------------------

    def start_trackers(self) -> None:
        """Start the recipe's trackers; `log` sends to them too. ValueError if a library is missing."""
        if not self._is_other_rank:
            self.trackers = start_trackers(self.recipe, self.path)

    def begin(self) -> None:
        """Remove ended.json: the run starts or resumes."""
        if not self._is_other_rank:
            self._ended.unlink(missing_ok=True)

    def end(self, ending: Ending) -> None:
        """Record how the run ended. A rank that does not write the run keeps an existing record.

        The folder itself may be gone if the run failed to start.
        """
        if self._is_other_rank and (self._ended.exists() or not self.path.exists()):
            return
        redaction = known_redaction()
        why, trace = (printable(redaction.redact(text)) for text in (ending.why, ending.traceback))
        write_ending(self._ended, replace(ending, why=why, traceback=trace))

    @property
    def ending(self) -> Ending | None:
        """How the run ended; None while it runs, or if the record cannot be read."""
        try:
            return read_ending(self._ended)
        except Damaged as error:
            logger.warning("how the run ended is unknown: %s", error)
            return None

    @property
    def _ended(self) -> Path:
        return self.path / "ended.json"

    def log(
        self,
        step: int,
        kind: str,
        metrics: Mapping[str, float],
        *,
        histograms: Mapping[str, Any] | None = None,
        alarms: Sequence[Any] = (),
    ) -> None:
        """Append a line to metrics.jsonl: `{"step", "kind", "time", "metrics", "histograms", "alarms"}`.

        Values that are not finite are written as null: JSON has neither NaN nor infinity.
        """
        if self._is_other_rank:
            return
        assert self._lines is not None, "opened to be read only"
        self._lines.append(step, kind, metrics, histograms or {}, alarms)
        self.trackers.log(step, metrics, histograms or {}, alarms)

    def cut(self, num_steps: int) -> DroppedSteps | None:
        """Go back to the state after `num_steps` steps: what was written for later ones moves to `dropped`.

        So do the summary and the `after` evaluation: the resumed run makes them again. None if there was
        nothing to move.
        """
        if self._is_other_rank:
            return None
        assert self._lines is not None, "opened to be read only"
        self.trackers.cut(num_steps)
        lines, files = self._lines.later(num_steps), list(self._later_files(num_steps))
        dropped = move_to_dropped(self.path, num_steps, lines, files)
        if lines:  # after they are kept: a kill in between keeps them twice
            self._lines.cut(num_steps)
        return dropped

    def _later_files(self, num_steps: int) -> Iterator[Path]:
        if os.path.lexists(self.summary):
            yield self.summary
        for file in [*_files_in(self.path / "trajectories"), *_files_in(self.path / "tokens")]:
            if (step := _step_of(file)) is None or step >= num_steps:
                yield file
        for file in _files_in(self.evaluations):
            # the evaluation after n steps is step-n; without its report it was not finished
            step = _step_of(file)
            is_later = step > num_steps if step is not None else not file.name.startswith("before.")
            if is_later or not (self.evaluations / f"{file.name.partition('.')[0]}.json").exists():
                yield file


def _step_of(file: Path) -> int | None:
    match = _STEP.match(file.name)
    return int(match[1]) if match else None


def _check_run(path: Path) -> None:
    if not os.path.lexists(path / "recipe.json"):
        raise ValueError(f"{path}: not a run's folder: it has no recipe.json")


def _check_writable(path: Path) -> None:
    """Damaged if an entry is neither a regular file nor a folder: a link could redirect our writes."""
    for entry in sorted(path.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise Damaged(entry, "is a symbolic link, and a run's folder has none")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise Damaged(entry, "is neither a file nor a folder")


def _files_in(folder: Path) -> list[Path]:
    """The files in a folder of the run; empty if it does not exist. Damaged if an entry is not a file."""
    try:
        files = [folder / name for name in names_in(folder)]
    except FileNotFoundError:
        return []
    for file in files:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise Damaged(file, "is not a file")
    return files


def _new_folder(root: Path, name: str) -> Path:
    """Create the folder `root/name-date-time`, or a numbered one if several are made within a second."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "run"
    dated = f"{safe}-{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"
    for number in range(1, 1000):  # several runs may start within one second
        path = root / (dated if number == 1 else f"{dated}-{number}")
        try:
            make_private_folder(path, exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise ValueError(f"{root / dated}: this and a thousand like it are there already")


def _exact_folder(root: Path, name: str) -> Path:
    path = root / name
    try:
        make_private_folder(path, exist_ok=False)
    except FileExistsError:
        raise ValueError(f"run.name: {path} is there already; --resume it, or choose another name") from None
    return path
