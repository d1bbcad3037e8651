"""Load the policy that a run has learned: its best checkpoint on validation, its last, or that of a step."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turnwise.config import Recipe
from turnwise.records.folder import RunFolder
from turnwise.setup.bench import load_model
from turnwise.system.files.regular_files import names_in
from turnwise.training.policy.policy import Policy
from turnwise.training.update import checkpoint


@dataclass(frozen=True, slots=True)
class TrainedPolicy:
    """A policy as it was after `step` steps of a run."""

    recipe: Recipe
    step: int
    policy: Policy


def load_trained(run: Path, which: int | Literal["best"] | None = None) -> TrainedPolicy:
    """Return the policy of the best validation, or of a given step; on the CPU.

    If `which` is None and there was no validation, it is the last checkpoint. Raises ValueError if there is
    no such checkpoint; it lists the available ones.
    """
    folder = RunFolder.read(run)
    recipe = folder.recipe
    found = _found(folder, which)
    policy = Policy(load_model(recipe.model), recipe.policy, seed=recipe.seed)
    policy.load_state(checkpoint.Chosen(found.tensors, "policy/"))
    return TrainedPolicy(recipe, found.step, policy)


def _found(folder: RunFolder, which: int | Literal["best"] | None) -> checkpoint.Checkpoint:
    try:
        last = checkpoint.latest(folder.checkpoints)
        if last is None:
            raise ValueError(f"{folder.path}: no checkpoint was saved yet")
        step = which if isinstance(which, int) else _best_step(last)
        if step == last.step or (step is None and which is None):
            return last
        if step is None:
            raise ValueError(
                f"{folder.path}: there was no validation (evaluation.every), so there is no best checkpoint"
            )
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
