"""The order in which drafts are verified: every kind in turn, so that none dominates."""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping

from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.shapes import SHAPES, Shape

_MAX_DRAFTS = 4_000
"""Drafts looked at per shape."""
_ONE_CALL = 2
"""The length of a kind with one call: its shape and its tool."""


def drafts_of(
    material: Material, seed: int, more: Iterable[Draft] = (), shapes: Mapping[str, Shape] = SHAPES
) -> list[Draft]:
    """Return the drafts of all shapes and `more` without duplicates, the kinds taking turns."""
    kinds: dict[tuple[str, ...], list[Draft]] = {}
    seen: set[str] = set()
    found = (itertools.islice(shape(material), _MAX_DRAFTS) for shape in shapes.values())
    for draft in itertools.chain(*found, more):
        if draft.key not in seen:
            seen.add(draft.key)
            kinds.setdefault((draft.shape, *draft.tools), []).append(draft)
    for kind, drafts in kinds.items():
        random.Random(f"{seed}/{kind}").shuffle(drafts)  # noqa: S311  # tasks, not secrets
    # kinds with one call come first: every tool is then in a task, however few tasks are wanted
    single_first = sorted(kinds, key=lambda kind: len(kind) > _ONE_CALL)
    return list(_in_turns({kind: kinds[kind] for kind in single_first}))


def _in_turns(kinds: Mapping[tuple[str, ...], list[Draft]]) -> Iterator[Draft]:
    columns = itertools.zip_longest(*kinds.values())
    yield from (draft for column in columns for draft in column if draft is not None)
