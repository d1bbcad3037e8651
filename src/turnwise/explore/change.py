"""A change that a tool was seen to make, and the call that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.types import StateProbe, Tool


@dataclass(frozen=True, slots=True)
class Change:
    """A call that changed something, with a probe that failed before it and held after it."""

    tool: Tool
    arguments: Mapping[str, Any]
    probe: StateProbe
    entities: tuple[str, ...]
    """The texts that were drawn for it."""
