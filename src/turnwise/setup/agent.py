"""What plays in an evaluation or a chat: a recipe with its own model, or with the one that a run trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turnwise.config import Recipe
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve_alone
from turnwise.setup.resolved_run import ResolvedRun


@dataclass(frozen=True, slots=True)
class Agent:
    """A resolved run, and the model that is sampled instead of its own."""

    run: ResolvedRun
    model: Any = None
    """None for the recipe's own model."""
    name: str = ""
    """The model's name; empty for the recipe's own model."""


def resolve_agent(
    request: RunRequest, recipe: Recipe, split: str, which: int | Literal["best"] | None = None
) -> Agent:
    """Resolve a request whose tasks of one split will be played; a run is played with its trained model.

    `which` is the checkpoint: after this many steps, or the best on validation.
    """
    run = resolve_alone(request, recipe, (split,))
    if request.run is None:
        return Agent(run)
    model, step = trained_model(request.run, which)
    return Agent(run, model, f"{request.run}, step {step}")


def trained_model(run: Path, which: int | Literal["best"] | None) -> tuple[Any, int]:
    """Return the model of a run's checkpoint, as any engine can load it, and the checkpoint's step."""
    from turnwise.setup.trained import load_trained
    from turnwise.training.policy.model_folder import plain_model

    trained = load_trained(run, which)
    return plain_model(trained.policy), trained.step
