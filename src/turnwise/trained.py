"""Takes a run's folder, gives what it has learned: the policy of its last checkpoint, its best, or any."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turnwise.config import Recipe
from turnwise.regular_files import names_in
from turnwise.tracking.folder import RunFolder
from turnwise.training import checkpoint
from turnwise.training.policy import Policy
from turnwise.workbench import load_model


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy as it was after `step` steps of a run."""

    recipe: Recipe
    step: int
    policy: Policy


def load_trained(run: Path, which: int | Literal["best"] | None = None) -> Trained:
    """The last checkpoint's policy, or that after a number of steps, or the best on validation; on the CPU.

    ValueError says which there are.
    """
    folder = RunFolder.read(run)
    recipe = folder.recipe
    found = _found(folder, which)
    policy = Policy(load_model(recipe.model), recipe.policy, seed=recipe.seed)
    policy.load_state(checkpoint.Chosen(found.tensors, "policy/"))
    return Trained(recipe, found.step, policy)


def _found(folder: RunFolder, which: int | Literal["best"] | None) -> checkpoint.Checkpoint:
    try:
        last = checkpoint.latest(folder.checkpoints)
        if last is None:
            raise ValueError(f"{folder.path}: no checkpoint was saved yet")
        if which is None:
            return last
        step = _best_step(last) if which == "best" else which
        if step is None:
            raise ValueError(f"{folder.path}: no validation was made (evaluation.every), so none is the best")
        path = checkpoint.at_step(folder.checkpoints, step)
        if path is None:
            kept = ", ".join(name for name in names_in(folder.checkpoints) if name.startswith("step-"))
            raise ValueError(f"{folder.path}: no checkpoint of step {step} is kept; there is {kept}")
        return checkpoint.load(path)
    except checkpoint.Unreadable as error:
        raise ValueError(str(error)) from None


def _best_step(last: checkpoint.Checkpoint) -> int | None:
    match last.facts:
        case {"standing": {"best_step": int() | None as step}}:
            return step
    raise checkpoint.Unreadable(f"{last.path}: facts.json does not say which step was the best")
