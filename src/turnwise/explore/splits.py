"""Which split a draft belongs to: test has entities, wordings and combinations that training never saw."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from turnwise.explore.programs.draft import Draft
from turnwise.explore.wording.questions import wordings_for
from turnwise.tasks.selection import split_of

SHARES: Mapping[str, float] = {"train": 0.7, "test": 0.15, "validation": 0.15}
"""The share of every split; the first of two with the same room left gets the next entities."""
_HELD_OUT_SHARE = 0.1
_LARGEST_SHARE = 0.05
"""Of the drafts: a combination with more is not held out, since its other drafts are lost."""
_MIN_COMBINATIONS = 4
"""With fewer combinations of tools, none is held out: training would lack too many."""
_ALONE = ("look_up", "change", "compute", "query", "join")
"""Shapes with one tool: held out, that tool would be missing from training."""
_MAX_TOGETHER = 40
"""Entities of one group that are kept together; a call with more is about no particular one."""


@dataclass(frozen=True, slots=True)
class EntitySplits:
    """The split of every entity that a draft names."""

    by_entity: Mapping[str, str] = field(default_factory=dict)
    containers: frozenset[str] = frozenset()
    """Entities that much is asked about, such as a folder: all splits may name them."""

    def split_of(self, entities: Sequence[str]) -> str:
        """Return the split that the entities allow; empty if some are for training and some for test.

        Entities that no observation names, such as texts that were drawn for a change, follow the others.
        Without any entity but containers the split is train: the same call is then in many tasks.
        """
        held = [entity for entity in entities if entity not in self.containers]
        known = {self.by_entity[entity] for entity in held if entity in self.by_entity}
        if known:
            return _shared(known)
        is_new = bool(held) and len(held) == len(entities)
        return split_of(held[0]) if is_new else "train"


def _shared(splits: Set[str]) -> str:
    """Return the strictest split: what validation names may also be trained on or tested."""
    if splits >= {"train", "test"}:
        return ""
    return next(split for split in ("train", "test", "validation") if split in splits)


Group = tuple[Sequence[str], float]
"""The entities of one call, and its weight."""


def assigned(groups: Iterable[Group], seed: int) -> EntitySplits:
    """Divide the entities of calls among the splits.

    Entities that often occur together stay together, as far as no cluster outgrows the smallest split.
    """
    weights: dict[str, float] = {}
    pairs: dict[tuple[str, str], float] = {}
    for entities, weight in groups:
        named = sorted(set(entities))[:_MAX_TOGETHER]
        for entity in named:
            weights[entity] = weights.get(entity, 0.0) + weight / len(named)
        for pair in itertools.combinations(named, 2):
            pairs[pair] = pairs.get(pair, 0.0) + weight
    most = min(SHARES.values()) * sum(weights.values())
    return EntitySplits(_divided(_clustered(weights, pairs, most), weights, seed))


def _clustered(
    weights: Mapping[str, float], pairs: Mapping[tuple[str, str], float], most: float
) -> list[list[str]]:
    """Join the entities of the heaviest pairs first, as long as a cluster's weight stays below `most`."""
    cluster_of = {entity: [entity] for entity in weights}
    total = dict(weights)
    for one, other in sorted(pairs, key=lambda pair: (-pairs[pair], pair)):
        first, second = cluster_of[one], cluster_of[other]
        joint = total[first[0]] + total[second[0]]
        if first is second or joint > most:
            continue
        first.extend(second)
        total[first[0]] = joint
        for entity in second:
            cluster_of[entity] = first
    found = {id(cluster): cluster for cluster in cluster_of.values()}
    return list(found.values())


def _divided(clusters: Sequence[Sequence[str]], weights: Mapping[str, float], seed: int) -> dict[str, str]:
    """Give every cluster, the heaviest first, to the split that lacks most of its share."""
    total = sum(weights.values())
    room = {split: share * total for split, share in SHARES.items()}
    size = {cluster[0]: sum(weights[entity] for entity in cluster) for cluster in clusters}
    found: dict[str, str] = {}
    for cluster in sorted(clusters, key=lambda one: (-round(size[one[0]], 6), _digest(f"{seed}/{one[0]}"))):
        split = max(room, key=lambda name: room[name])
        room[split] -= size[cluster[0]]
        found.update(dict.fromkeys(cluster, split))
    return found


def combination(draft: Draft) -> str:
    """Return the shape and the tools, such as `chain: get_customer + list_orders`."""
    return f"{draft.shape}: {' + '.join(dict.fromkeys(draft.tools))}"


def held_out_combinations(drafts: Sequence[Draft], splits: EntitySplits, seed: int) -> tuple[str, ...]:
    """Return the combinations that only test tasks use, chosen by the seed.

    They have test tasks, and other combinations teach all of their tools.
    """
    combinations = {combination(draft): set(draft.tools) for draft in drafts}
    tested = {
        combination(draft)
        for draft in drafts
        if draft.shape not in _ALONE and splits.split_of(draft.entities) == "test"
    }
    composed = {combination(draft) for draft in drafts if draft.shape not in _ALONE}
    if len(composed) < _MIN_COMBINATIONS:
        return ()
    most = max(1, int(len(composed) * _HELD_OUT_SHARE))
    sizes = Counter(map(combination, drafts))
    uses = Counter(tool for tools in combinations.values() for tool in tools)
    chosen: list[str] = []
    for name in sorted(tested, key=lambda name: (_digest(f"{seed}/{name}"), name)):
        is_small = sizes[name] <= _LARGEST_SHARE * len(drafts)
        if len(chosen) < most and is_small and all(uses[tool] > 1 for tool in combinations[name]):
            chosen.append(name)
            uses.subtract(combinations[name])
    return tuple(sorted(chosen))


def question_for(draft: Draft, split: str) -> str:
    """Return a wording of the split."""
    choices = wordings_for(split, draft.questions)
    return choices[_digest(draft.key) % len(choices)]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
