"""What an exploration is asked to do."""

from dataclasses import dataclass

from turnwise.explore.first.paraphrase import ChatModel
from turnwise.explore.first.values import Value


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """How far to explore."""

    num_tasks: int = 300
    minutes: float = 5.0
    seed: int = 0
    writable: tuple[str, ...] = ()
    """Servers whose real data may be changed; others are only changed in private copies."""
    values: tuple[Value, ...] = ()
    """Values of the user's own."""
    paraphrase: ChatModel | None = None
    """A model that rewords the questions; None: they stay as they were composed."""
    pause_seconds: float = 60.0
    """The least time after which answers are read again: what moves meanwhile is not asked about."""
