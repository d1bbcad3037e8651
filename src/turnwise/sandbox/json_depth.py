"""How deep a JSON value may be nested."""

from typing import Any

MAX_DEPTH = 100
"""Levels. Python's json fails past some 900, at a depth that depends on its caller's; data has a dozen."""


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested more than `levels` deep; a loop, so that no depth can break it."""
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
