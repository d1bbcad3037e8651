"""Which tasks: the splits, and a few tasks in place of many, drawn evenly across families."""

import hashlib
from collections.abc import Sequence

from turnwise.types import Task

SPLITS = ("train", "validation", "test")


def across_families(tasks: Sequence[Task], most: int | None) -> tuple[Task, ...]:
    """Return at most `most` tasks, taken from the families in turn and kept in file order; None means all.

    Files are usually sorted by family, so the first tasks alone would measure only one family.
    """
    if most is None or most >= len(tasks):
        return tuple(tasks)
    families: dict[str, list[Task]] = {}
    for task in tasks:
        families.setdefault(task.family, []).append(task)
    longest = max(len(family) for family in families.values())
    in_turn = [
        family[place] for place in range(longest) for family in families.values() if place < len(family)
    ]
    chosen = {task.id for task in in_turn[:most]}
    return tuple(task for task in tasks if task.id in chosen)


def split_of(symbol: str) -> str:
    """Return a company's split, by a hash of its symbol: 70 % train, 15 % validation, 15 % test."""
    share = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:4], "big") % 100
    return "train" if share < 70 else "validation" if share < 85 else "test"
