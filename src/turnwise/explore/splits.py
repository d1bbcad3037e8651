"""Which split a draft belongs to: test has entities, wordings and combinations that training never saw."""

import hashlib
from collections.abc import Iterable, Sequence

from turnwise.explore.draft import Draft
from turnwise.explore.wording import NUM_NAMED, wordings_for
from turnwise.tasks.family import split_of
from turnwise.types import Difficulty

_HELD_OUT_SHARE = 0.2
_MIN_COMBINATIONS = 4
"""With fewer combinations of tools, none is held out: training would lack too many."""
_ALONE = ("look_up", "change", "convert")
"""Shapes with one tool: held out, that tool would be missing from training."""


def combination(draft: Draft) -> str:
    """Return the shape and the tools, such as `chain: get_customer + list_orders`."""
    return f"{draft.shape}: {' + '.join(dict.fromkeys(draft.tools))}"


def held_out_combinations(drafts: Iterable[Draft], seed: int) -> tuple[str, ...]:
    """Return the combinations that only test tasks use, chosen by the seed."""
    found = {combination(draft) for draft in drafts if draft.shape not in _ALONE}
    if len(found) < _MIN_COMBINATIONS:
        return ()
    ordered = sorted(found, key=lambda name: _digest(f"{seed}/{name}"))
    return tuple(sorted(ordered[: max(1, int(len(found) * _HELD_OUT_SHARE))]))


def split_for(draft: Draft, held_out: Sequence[str]) -> str:
    """Return the draft's split; empty if its entities belong to different ones, or are not held out too."""
    splits = {split_of(entity) for entity in draft.entities or (draft.key,)}
    split = splits.pop() if len(splits) == 1 else ""
    return "" if combination(draft) in held_out and split != "test" else split


def question_for(draft: Draft, split: str) -> str:
    """Return a wording of the split; only easy questions may name the tool."""
    choices = wordings_for(split, draft.questions)
    if split == "train" and draft.difficulty is not Difficulty.EASY:
        choices = choices[NUM_NAMED:] or choices
    return choices[_digest(draft.key) % len(choices)]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
