"""A change that a tool was seen to make, and the calls that show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.types import StateProbe, Tool


@dataclass(frozen=True, slots=True)
class Change:
    """A call that changed something, with probes of which one failed before it and all held after it."""

    tool: Tool
    arguments: Mapping[str, Any]
    probes: tuple[StateProbe, ...]
    entities: tuple[str, ...]
    """The texts that tell it apart: those that were drawn for it, or what it changes."""
    content: str = ""
    """The drawn text that it writes, if a probe shows it: another text can be written in its place."""
