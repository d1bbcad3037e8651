"""`turnwise runs`: what is in a folder of runs, and which of them can be removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnwise.records.run_facts import RunFacts, heldout_success, read_facts, read_last_figures
from turnwise.records.versions import is_made_by_us, recipe_file
from turnwise.system.files.tree_removal import remove_tree


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run, as `turnwise runs` lists it."""

    folder: Path
    recipe_file: str
    """The name of its recipe's file; empty if it is not known."""
    model: str
    num_steps: int
    num_planned: int | None
    success_before: float | None
    """On the held-out tasks; None if they were not played."""
    success_after: float | None
    started: float
    """Seconds since the epoch, like `ended`."""
    ended: float | None
    state: str
    """running, finished, stopped, halted, crashed, died, damaged or unknown."""
    reason: str

    @property
    def is_empty(self) -> bool:
        """Whether the run has ended without a step, so that nothing is lost with it."""
        return self.num_steps == 0 and self.state in ("finished", "stopped", "halted", "crashed", "died")


def list_runs(folder: Path) -> list[RunLine]:
    """The runs directly in a folder, oldest first; empty if there is no such folder."""
    try:
        listed = [read_run(child) for child in folder.iterdir() if is_run(child)]
    except FileNotFoundError:
        return []
    return sorted(listed, key=lambda run: (run.started, run.folder))


def is_run(folder: Path) -> bool:
    return (folder / "recipe.json").is_file() and not folder.is_symlink()


def read_run(folder: Path) -> RunLine:
    facts = read_facts(folder)
    before, after = (heldout_success(folder, facts.summary, name) for name in ("before", "after"))
    began = folder / "versions.json"  # written once, when the run was created
    return RunLine(
        folder=folder,
        recipe_file=recipe_file(began),
        model=facts.recipe.model.path,
        num_steps=_num_steps(folder, facts),
        num_planned=facts.recipe.run.num_steps,
        success_before=before,
        success_after=after,
        started=(began if began.exists() else folder).lstat().st_mtime,
        ended=_end_of(folder, facts.state),
        state=facts.state,
        reason=facts.reason,
    )


def removable(folder: Path, names: Sequence[Path]) -> list[RunLine]:
    """The named runs, or without names all runs in the folder that ended without a step.

    ValueError if a named folder is not a run, or if its run is still running.
    """
    if not names:
        return [run for run in list_runs(folder) if run.is_empty and _is_ours(run.folder)]
    chosen = []
    for name in names:
        place = name if is_run(name) else folder / name
        if not is_run(place):
            raise ValueError(f"{name}: not a run's folder: it has no recipe.json")
        run = read_run(place)
        if run.state in ("running", "unknown"):
            raise ValueError(f"{name}: the run is {run.state}" + (f": {run.reason}" if run.reason else ""))
        if not _is_ours(place):
            raise ValueError(f"{name}: its versions.json is not that of a run, so it is not removed")
        chosen.append(run)
    return chosen


def _is_ours(folder: Path) -> bool:
    """Whether turnwise made the folder: any folder can have a recipe.json."""
    return is_made_by_us(folder / "versions.json")


def remove(run: RunLine) -> None:
    """ValueError if a part of it cannot be removed."""
    if reason := remove_tree(run.folder):
        raise ValueError(f"{run.folder}: not all of it could be removed: {reason}")


def num_bytes(run: RunLine) -> int:
    return sum(file.lstat().st_size for file in run.folder.rglob("*"))


def _num_steps(folder: Path, facts: RunFacts) -> int:
    """The number of finished updates: the last one in metrics.jsonl, since a crash leaves no summary."""
    if facts.summary.num_steps is not None and facts.state != "running":
        return facts.summary.num_steps
    return read_last_figures(folder).num_updates


def _end_of(folder: Path, state: str) -> float | None:
    if state in ("running", "unknown"):
        return None
    files = [folder / name for name in ("ended.json", "training.log", "recipe.json")]
    return next((file.lstat().st_mtime for file in files if file.exists()), None)
