"""What an exploration is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.explore.writing.model import ModelSource


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """How far to explore."""

    num_tasks: int = 300
    minutes: float = 5.0
    seed: int = 0
    writable: tuple[str, ...] = ()
    """Servers whose real data may be changed; others are only changed in private copies."""
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of the user's own, by parameter name."""
    writer: ModelSource | None = None
    """The model that chooses and words the tasks; None: they stay as they were composed."""
    pause_seconds: float = 60.0
    """How long after they were verified all tasks are played once more: what moved meanwhile is not asked."""
