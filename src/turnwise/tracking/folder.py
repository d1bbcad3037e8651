"""A run's folder: its paths, its metrics line by line, its log, and one writer at a time.

    runs/cpu-20261115-070000/
      recipe.json  versions.json            what is run, and by which packages, commit and seed
      metrics.jsonl  training.log           as the run goes
      trajectories/step-000001.jsonl        every episode
      tokens/step-000001.jsonl              what the update made of some episodes, token by token
      checkpoints/  evaluations/  summary.json
      ended.json                            how it ended and why; absent while it runs
      wandb/  tensorboard/                  what the recipe's trackers keep here
      lock                                  who writes now

No secret is written here: a recipe holds none, and the environment of mcp.json's servers is not copied.
"""

import datetime
import logging
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from turnwise.config import Recipe, stored_recipe
from turnwise.runtime.atomic_write import write_json
from turnwise.runtime.regular_files import Damaged, names_in, read_table
from turnwise.runtime.terminal import printable
from turnwise.tracking.ending import Ending, read_ending, write_ending
from turnwise.tracking.environment import known_secrets, redacted
from turnwise.tracking.json_lines import Lines
from turnwise.tracking.lock import Lock
from turnwise.tracking.run_log import RunLog
from turnwise.tracking.run_marks import is_made_here, remember_made
from turnwise.tracking.tracker import check
from turnwise.tracking.trackers import NO_TRACKERS, start_trackers
from turnwise.tracking.versions import changed, read_versions, versions_now

logger = logging.getLogger(__name__)

_STEP = re.compile(r"step-(\d{6,})\.(?!.*\.part$)")


class RunFolder:
    """One run on disk. `create` and `open` hold it for writing until `close`; `read` only looks."""

    def __init__(self, path: Path, lock: Lock | None, *, is_beside: bool = False) -> None:
        self.path = path
        self._lock = lock
        self._is_beside = is_beside
        self._lines = Lines(path / "metrics.jsonl") if lock is not None else None
        self._log = RunLog(path / "training.log", known_secrets()) if lock is not None else None
        self.trackers = NO_TRACKERS

    @classmethod
    def create(cls, root: Path, name: str, recipe: Recipe, *, is_dated: bool = True) -> Self:
        """A new folder `root/name-date-time`, or just `root/name`, which must not be there yet."""
        check(recipe.trackers)
        path = _new_folder(root, name) if is_dated else _exact_folder(root, name)
        for part in ("checkpoints", "evaluations", "tokens", "trajectories"):
            (path / part).mkdir()
        folder = cls(path, Lock(path / "lock"))
        remember_made(recipe)
        write_json(path / "versions.json", versions_now(recipe.seed))
        write_json(path / "recipe.json", recipe.model_dump(mode="json"))  # last: with it, it is a run
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """A run to go on with. ValueError if there is none, or if another process writes to it."""
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
        """A run to look at, also while it goes."""
        _check_run(path)
        return cls(path, None)

    @classmethod
    def beside(cls, path: Path) -> Self:
        """A run that another process of it writes: what is logged here is dropped, since that one has it."""
        _check_run(path)
        return cls(path, None, is_beside=True)

    @property
    def is_written_here(self) -> bool:
        """Whether what belongs to the run goes to disk from this process."""
        return not self._is_beside

    def close(self, *, is_hasty: bool = False) -> None:
        """Let another process write; doing so again changes nothing. Hasty: trackers have little time."""
        if self._lock is not None:
            assert self._lines is not None
            assert self._log is not None
            self.trackers.close(is_hasty=is_hasty)  # first: it logs what was lost
            self._lines.close()
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_hasty=kind is not None)

    # --- where things are --------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def tokenizer(self) -> Path:
        """What the run's token ids stand for, whatever becomes of its model."""
        return self.path / "tokenizer.json"

    def trajectories(self, step: int) -> Path:
        """Where the step's episodes go."""
        return self.path / "trajectories" / f"step-{step:06d}.jsonl"

    def tokens(self, step: int) -> Path:
        """Where what the step's update made of each token goes."""
        return self.path / "tokens" / f"step-{step:06d}.jsonl"

    @property
    def recipe(self) -> Recipe:
        """As it was resolved when the run was begun."""
        file = self.path / "recipe.json"
        return stored_recipe(read_table(file), str(file))

    def change_recipe(self, recipe: Recipe) -> None:
        """Go on with another one, such as more steps."""
        before = self.recipe
        if recipe != before:
            if is_made_here(before):
                remember_made(recipe)
            write_json(self.path / "recipe.json", recipe.model_dump(mode="json"))

    # --- as the run goes ---------------------------------------------------------------------------------

    def start_trackers(self) -> None:
        """What is logged from now on goes to the recipe's trackers too. ValueError if one is not there."""
        if not self._is_beside:
            self.trackers = start_trackers(self.recipe, self.path)

    def begin(self) -> None:
        """The run goes on: how it ended before no longer holds."""
        if not self._is_beside:
            self._ended.unlink(missing_ok=True)

    def end(self, ending: Ending) -> None:
        """Record how it ended. A process that does not write the run records only what nobody has yet."""
        if self._is_beside and self._ended.exists():
            return
        why, trace = (printable(redacted(text, known_secrets())) for text in (ending.why, ending.traceback))
        write_ending(self._ended, replace(ending, why=why, traceback=trace))

    @property
    def ending(self) -> Ending | None:
        """None while it runs, and where the record cannot be read."""
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
        """One whole line of metrics.jsonl: `{"step", "kind", "time", "metrics", "histograms", "alarms"}`.

        What is not a finite number is null there: JSON knows neither NaN nor infinity.
        """
        if self._is_beside:
            return
        assert self._lines is not None, "opened to be read only"
        self._lines.append(step, kind, metrics, histograms or {}, alarms)
        self.trackers.log(step, metrics, histograms or {}, alarms)

    def cut(self, num_steps: int) -> None:
        """Back to where `num_steps` steps were done: what was written of later ones is removed.

        Measurements of the finished run go too: it is about to be finished again.
        """
        if self._is_beside:
            return
        assert self._lines is not None, "opened to be read only"
        self._lines.cut(num_steps)
        self.trackers.cut(num_steps)
        self.summary.unlink(missing_ok=True)
        for file in [*_files_in(self.path / "trajectories"), *_files_in(self.path / "tokens")]:
            if (step := _step_of(file)) is None or step >= num_steps:
                file.unlink()
        for file in _files_in(self.evaluations):
            # an evaluation after n steps bears the number n; one without its report was never finished
            step = _step_of(file)
            is_later = step > num_steps if step is not None else not file.name.startswith("before.")
            if is_later or not (self.evaluations / f"{file.name.partition('.')[0]}.json").exists():
                file.unlink()


def _step_of(file: Path) -> int | None:
    found = _STEP.match(file.name)
    return int(found[1]) if found else None


def _check_run(path: Path) -> None:
    if not os.path.lexists(path / "recipe.json"):
        raise ValueError(f"{path}: not a run's folder: it has no recipe.json")


def _check_writable(path: Path) -> None:
    """Damaged if a name in the folder is no file or folder: what is written there could go anywhere."""
    for entry in sorted(path.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise Damaged(entry, "is a symbolic link, and a run's folder has none")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise Damaged(entry, "is neither a file nor a folder")


def _files_in(folder: Path) -> list[Path]:
    """Everything in a folder of the run; none if it is not there. Damaged if a part of it is no file."""
    try:
        files = [folder / name for name in names_in(folder)]
    except FileNotFoundError:
        return []
    for file in files:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise Damaged(file, "is not a file")
    return files


def _new_folder(root: Path, name: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "run"
    dated = f"{safe}-{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):  # several may be begun within a second
        path = root / (dated if number == 1 else f"{dated}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise ValueError(f"{root / dated}: this and a thousand like it are there already")


def _exact_folder(root: Path, name: str) -> Path:
    path = root / name
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise ValueError(f"run.name: {path} is there already; --resume it, or choose another name") from None
    return path
