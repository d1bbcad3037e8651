"""How deep a JSON value may be nested."""

from typing import Any

MAX_DEPTH = 100
"""Levels. Python's json fails at about 900, less the stack depth of its caller; data has a dozen."""


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects nest deeper than `levels`; a loop, so that no depth overflows it."""
    inner = [value]
    for _ in range(levels + 1):
        containers = [item for item in inner if isinstance(item, list | dict)]
        if not containers:
            return False
        inner = [
            item
            for container in containers
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return True
