"""What lists of runs show of a run folder: recipe, summary, state, what is damaged, and the last figures.

Each file is checked here once. A run of another version may not fit today's recipe and can still be shown, so
only the fields that are shown are checked, and unknown ones are ignored.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.config import CLIP_BOUNDS
from turnwise.records.ending import Ending, read_ending
from turnwise.system.files.lock import holder_elsewhere, is_held
from turnwise.system.files.regular_files import Damaged, damage_of, names_in, open_to_read, read_table

DIED = (
    "its process ended without recording why: it was killed (kill -9, out of memory), or the machine went "
    "down; training.log ends with the last line it wrote"
)

DAMAGED = "damaged"
"""The state of a run whose recipe cannot be read: nothing else in the folder can be relied on."""

_TAIL_BYTES = 128 << 10
"""The part of metrics.jsonl that is read: a step has about 10 kB."""

_REPORT_BYTES = 1 << 20
"""The largest report that is read whole."""

_OF_GPUS = ("gpu/", "memory/cuda_", "memory/mps_")
"""Beginnings of the names of figures that only a run on a GPU has."""

_LENIENT = ConfigDict(extra="ignore", frozen=True)
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class ShownModel(BaseModel):
    """The recipe's `model` section."""

    model_config = _LENIENT

    path: str = ""


class ShownLoop(BaseModel):
    """The recipe's `run` section."""

    model_config = _LENIENT

    num_steps: _Count | None = None


class ShownKl(BaseModel):
    """The recipe's `algorithm.kl` section."""

    model_config = _LENIENT

    placement: str = ""


class ShownAlgorithm(BaseModel):
    """The recipe's `algorithm` section."""

    model_config = _LENIENT

    preset: str = ""
    advantage: str = ""
    loss: str = ""
    clip_low: _Finite | None = None
    clip_high: _Finite | None = None
    kl: ShownKl = ShownKl()

    @property
    def words(self) -> str:
        return " · ".join(word for word in (self.preset, self.advantage, self.loss) if word)

    @property
    def clip(self) -> list[float]:
        """The lower and upper bound of the ratio; a bound that the recipe lacks is its loss's default."""
        low, high = CLIP_BOUNDS.get(self.loss, CLIP_BOUNDS["clip"])
        return [
            1 - (low if self.clip_low is None else self.clip_low),
            1 + (high if self.clip_high is None else self.clip_high),
        ]


class ShownHealth(BaseModel):
    """The recipe's `health` section."""

    model_config = _LENIENT

    ignore: tuple[str, ...] = ()


class ShownTasks(BaseModel):
    """The recipe's `tasks` section."""

    model_config = _LENIENT

    train: str | None = None
    validation: str | None = None
    test: str | None = None


class ShownRecipe(BaseModel):
    """The fields of recipe.json that are shown."""

    model_config = _LENIENT

    model: ShownModel = ShownModel()
    run: ShownLoop = ShownLoop()
    algorithm: ShownAlgorithm = ShownAlgorithm()
    health: ShownHealth = ShownHealth()
    tasks: ShownTasks = ShownTasks()


class ShownGain(BaseModel):
    """The summary's `heldout_gain`."""

    model_config = _LENIENT

    value: float | None = None
    low: float | None = None
    high: float | None = None


class ShownSummary(BaseModel):
    """The fields of summary.json that are shown."""

    model_config = _LENIENT

    num_steps: _Count | None = None
    best_step: _Count | None = None
    stopped: str | None = None
    heldout_success: dict[str, float | None] = {}
    heldout_gain: ShownGain | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Recipe, summary, state and problems of a run, read together."""

    recipe: ShownRecipe
    summary: ShownSummary
    state: str
    """running, finished, stopped, halted, crashed or damaged; died or unknown if no ending was recorded."""
    reason: str
    """Why the run is in that state; empty if the state needs no explanation."""
    problems: tuple[str, ...]
    """One line for each file that cannot be used."""


def read_facts(folder: Path) -> RunFacts:
    """Read the run's facts; unreadable files are listed in `problems`."""
    problems = [
        f"{name}: {reason}" for name in ("lock", "tokenizer.json") if (reason := damage_of(folder / name))
    ]
    problems += _damaged_reports(folder)
    recipe, summary, ending = None, None, None
    reason = "recipe.json is not there"
    try:
        recipe = _checked(folder / "recipe.json", ShownRecipe)
    except Damaged as error:
        reason = f"recipe.json {error.reason}"
    try:
        summary = _checked(folder / "summary.json", ShownSummary)
    except Damaged as error:
        problems.append(f"summary.json: {error.reason}")
    try:
        ending = read_ending(folder / "ended.json")
    except Damaged as error:
        problems.append(f"ended.json: {error.reason}")
    shown = summary or ShownSummary()
    if recipe is None:
        return RunFacts(ShownRecipe(), shown, DAMAGED, reason, tuple(problems))
    return RunFacts(recipe, shown, *_state(folder / "lock", ending, summary), tuple(problems))


@dataclass(frozen=True, slots=True)
class LastFigures:
    """What the last lines of metrics.jsonl say; None for what they do not have."""

    step: int | None
    time: float | None
    """Of the last line."""
    num_updates: int
    success: float | None
    """In training."""
    has_gpu: bool


def read_last_figures(folder: Path) -> LastFigures:
    """Read the end of the run's metrics; lines that are cut off or not ours are skipped."""
    step: int | None = None
    time, success, num_updates, has_gpu = None, None, 0, False
    for line in reversed(_tail(folder / "metrics.jsonl").split(b"\n")):
        try:
            record = json.loads(line)
            at, metrics, written = record["step"], record["metrics"], record["time"]
            rate = metrics.get("success/rate")
            has_gpu |= any(str(name).startswith(_OF_GPUS) for name in metrics)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if type(at) is int:
            if step is None and isinstance(written, int | float):
                step, time = at, written
            if record.get("kind") == "update":
                num_updates = num_updates or at + 1
        if isinstance(rate, int | float):
            success = rate
        if num_updates and success is not None:
            break
    return LastFigures(step, time, num_updates, success, has_gpu)


def _tail(path: Path) -> bytes:
    try:
        with open_to_read(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES) or b""
    except (OSError, Damaged):
        return b""


def heldout_success(folder: Path, summary: ShownSummary, name: str) -> float | None:
    """Success on the held-out tasks `before` or `after`: as the summary says, else as the report says."""
    if (success := summary.heldout_success.get(name)) is not None:
        return success
    try:
        report: Any = read_table(folder / "evaluations" / f"{name}.json", _REPORT_BYTES)
        success = report["figures"]["all"]["success"]["value"]
    except (Damaged, OSError, KeyError, TypeError):
        return None
    return float(success) if isinstance(success, int | float) else None


_Shown = TypeVar("_Shown", bound=BaseModel)


def _checked(path: Path, kind: type[_Shown]) -> _Shown | None:
    """Read and validate a JSON file; None if it does not exist. Damaged if it cannot be used."""
    try:
        return kind.model_validate(read_table(path))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        where = ".".join(str(part) for part in first["loc"])
        raise Damaged(path, f"has a field of the wrong kind: {where}: {first['msg']}") from None


def _damaged_reports(folder: Path) -> list[str]:
    """Reports that cannot be opened; one that opens but is not a report is listed with the evaluations."""
    try:
        names = [name for name in names_in(folder / "evaluations") if name.endswith(".json")]
    except FileNotFoundError:
        return []
    except Damaged as error:
        return [f"evaluations: {error.reason}"]
    damage = {name: damage_of(folder / "evaluations" / name) for name in names}
    return [f"evaluations/{name}: {reason}" for name, reason in damage.items() if reason]


def _state(lock: Path, ending: Ending | None, summary: ShownSummary | None) -> tuple[str, str]:
    """The state and its reason. Runs of versions that wrote no ended.json are judged by their summary."""
    if is_held(lock):
        return "running", ""
    if ending is not None:
        return ending.how.value, ending.why
    if summary is not None:
        return ("stopped" if summary.stopped else "finished"), summary.stopped or ""
    if holder := holder_elsewhere(lock):
        return "unknown", f"held by {holder}; whether that still runs cannot be seen from here"
    return "died", DIED
