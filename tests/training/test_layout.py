"""A layout has the tokens of every sample in order, shared prefixes once, and the right positions."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.samples import GIVEN, OWN, family, sample
from turnwise.training.packing.layout import PackedLayout, common_prefix, padded, shared
from turnwise.training.packing.microbatches import microbatches
from turnwise.training.packing.samples import Sample
from turnwise.training.packing.tree import Tree, TreeSegment

few_ids = st.lists(st.integers(0, 2), min_size=1, max_size=12)
any_samples = st.lists(few_ids, min_size=1, max_size=8).map(
    lambda rows: [sample((GIVEN, row[:1]), (OWN, row[1:])) for row in rows]
)


def ancestors(tree: Tree, place: int) -> list[int]:
    """The places that the token at `place` sees, by the definition of a segment."""
    seen = []
    for segment in tree.segments:
        if segment.end <= place < segment.stop:
            seen += range(segment.start, segment.end)
        elif segment.start <= place < segment.end:
            seen += range(segment.start, place + 1)
    return seen


def check_paths(samples: Sequence[Sample], layout: PackedLayout, carried: tuple[int, ...] = ()) -> None:
    """The path to a sample's end has its ids after the carried prefix, at successive positions."""
    ids, positions = layout.token_ids_RN[0].tolist(), layout.position_ids_RN[0].tolist()
    assert layout.tree is not None
    for one, end in zip(samples, layout.end_B.tolist(), strict=True):
        path = ancestors(layout.tree, end)
        assert [*carried, *(ids[place] for place in path)] == list(one.token_ids)
        assert [positions[place] for place in path] == list(range(len(carried), len(one.token_ids)))


def by_row(layout: PackedLayout) -> tuple[list[list[int]], list[list[int]]]:
    """For the own tokens of every sample: the positions that predict them, and their ids."""
    counts = layout.mask_BT.sum(1).tolist()
    asked = layout.asked
    columns = (asked.source_P, asked.target_Q[asked.pair_P])
    sources, targets = ([part.tolist() for part in torch.split(column, counts)] for column in columns)
    return sources, targets


def check_targets(samples: Sequence[Sample], layout: PackedLayout) -> None:
    """The targets are the ids of own tokens, and their sources are the tokens before them."""
    ids = layout.token_ids_RN.flatten().tolist()
    assert layout.mask_BT.sum(1).tolist() == [one.num_own_tokens for one in samples]
    for one, sources, targets in zip(samples, *by_row(layout), strict=True):
        own = [place for place, is_own in enumerate(one.loss_mask) if is_own]
        assert targets == [one.token_ids[place] for place in own]
        assert [ids[source] for source in sources] == [one.token_ids[place - 1] for place in own]
        positions = layout.position_ids_RN.flatten()[sources].tolist()
        assert positions == [place - 1 for place in own]


@given(any_samples, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_path_of_the_tree_is_its_sample(samples: list[Sample], min_shared: int) -> None:
    layout = shared(samples, min_shared=min_shared)
    check_paths(samples, layout)
    check_targets(samples, layout)
    assert layout.tree is not None
    starts = [segment.start for segment in layout.tree.segments]
    ends = [segment.end for segment in layout.tree.segments]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == layout.num_tokens
    backwards = shared(samples[::-1], min_shared=min_shared)
    assert backwards.token_ids_RN.equal(layout.token_ids_RN), "the order of samples does not matter"
    assert backwards.tree == layout.tree
    check_targets(samples[::-1], backwards)
    prefixes = {one.token_ids[:end] for one in samples for end in range(1, len(one.token_ids) + 1)}
    assert shared(samples, min_shared=1).num_tokens == len(prefixes), "every distinct prefix once"


@given(any_samples, st.integers(1, 4), st.lists(st.integers(0, 2), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_row_after_a_carried_prefix_continues_at_its_end(
    samples: list[Sample], min_shared: int, begin: list[int]
) -> None:
    samples = [sample((GIVEN, [*begin, one.token_ids[0]]), (OWN, one.token_ids[1:])) for one in samples]
    carried = common_prefix(samples)
    layout = shared(samples, min_shared=min_shared, num_carried=len(carried))
    assert all(one.token_ids[: len(carried)] == carried for one in samples)
    check_paths(samples, layout, carried)
    check_targets(samples, layout)


def test_no_output_is_needed_inside_the_common_prefix() -> None:
    begin = list(range(10))
    assert common_prefix([sample((GIVEN, begin), (OWN, [number])) for number in (20, 21)]) == tuple(range(9))
    # own tokens are learned from even if all samples share them, and the last token has a value
    alike = [sample((GIVEN, begin[:4]), (OWN, begin[4:]), (OWN, [number])) for number in (20, 21)]
    assert common_prefix(alike) == (0, 1, 2)
    assert common_prefix([sample((GIVEN, begin)), sample((GIVEN, [*begin, 3]))]) == tuple(range(9))
    assert common_prefix([sample((GIVEN, begin)), sample((GIVEN, [7, *begin]))]) == ()
    assert common_prefix([sample((GIVEN, [7])), sample((GIVEN, [7]))]) == ()


def test_the_tree_of_three_short_rows() -> None:
    rows = ["abcde", "abcf", "abghi"]
    layout = shared([sample((GIVEN, [ord(c) for c in row])) for row in rows], min_shared=1)
    assert "".join(map(chr, layout.token_ids_RN[0].tolist())) == "abcdefghi"
    assert layout.position_ids_RN[0].tolist() == [0, 1, 2, 3, 4, 3, 2, 3, 4]
    segments = ((0, 2, 9), (2, 3, 6), (3, 5, 5), (5, 6, 6), (6, 9, 9))
    assert layout.tree == Tree(tuple(TreeSegment(*segment) for segment in segments))


def test_short_runs_are_not_shared() -> None:
    tails = [[1] * 6, [2] * 5 + [3], [2] * 5 + [4]]
    samples = [sample((GIVEN, [0] * 40), (OWN, tail)) for tail in tails]
    assert shared(samples, min_shared=6).num_tokens == 40 + 6 + 6 + 6
    assert shared(samples, min_shared=5).num_tokens == 40 + 6 + 5 + 1 + 1
    assert shared(samples[:1] * 3).num_tokens == 46


def test_padded_rows_are_the_samples() -> None:
    samples = family()
    layout = padded(samples)
    assert layout.tree is None
    assert layout.token_ids_RN.shape == (len(samples), max(len(one.token_ids) for one in samples))
    for one, row in zip(samples, layout.token_ids_RN.tolist(), strict=True):
        assert row[: len(one.token_ids)] == list(one.token_ids)
    check_targets(samples, layout)
    ends = layout.token_ids_RN.flatten()[layout.end_B].tolist()
    assert ends == [one.token_ids[-1] for one in samples]


@given(any_samples, st.integers(1, 40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_microbatches_hold_every_row_once_within_the_budget(
    samples: list[Sample], tokens: int, is_shared: bool
) -> None:
    parts = microbatches(samples, tokens, is_shared=is_shared, min_shared=1)
    assert sorted(row for part in parts for row in part) == list(range(len(samples)))
    for part in parts:
        rows = [samples[row] for row in part]
        size = shared(rows, min_shared=1).num_tokens if is_shared else padded(rows).num_tokens
        assert size <= tokens or len(part) == 1


def test_members_of_a_group_stay_together_and_their_prompt_counts_once() -> None:
    mixed = [
        sample((GIVEN, [group] * 100), (OWN, [member] * 10), group=group)
        for member in range(1, 5)
        for group in range(1, 4)
    ]
    parts = microbatches(mixed, 140, is_shared=True)
    assert [{mixed[row].group for row in part} for part in parts] == [{1}, {2}, {3}]
    assert all(len(part) == 4 for part in parts)
    assert len(microbatches(mixed, 140, is_shared=False)) == 12
    assert [len(part) for part in microbatches(mixed, 139, is_shared=True)] == [2, 2] * 3


@pytest.mark.parametrize(
    ("budget", "options", "sizes"),
    [
        # a carried prefix counts in every part
        (99 + 5 * 21, {"is_shared": True, "num_carried": 99}, [5, 5]),
        (99 + 5 * 21 - 1, {"is_shared": True, "num_carried": 99}, [4, 4, 2]),
        (60, {"is_shared": True, "num_carried": 99}, [1] * 10),
        # seven would fit; two parts of similar size are as few as seven and three
        (100 + 7 * 20, {"is_shared": True}, [5, 5]),
        (7 * 120, {"is_shared": False}, [5, 5]),
    ],
)
def test_parts_are_as_few_as_the_budget_allows_and_of_similar_size(
    budget: int, options: dict[str, Any], sizes: list[int]
) -> None:
    samples = [sample((GIVEN, [0] * 100), (OWN, [member] * 20)) for member in range(1, 11)]
    assert [len(part) for part in microbatches(samples, budget, **options)] == sizes


def test_invalid_samples_and_budgets_are_rejected() -> None:
    with pytest.raises(ValueError, match="starts with an own token"):
        shared([sample((OWN, [1, 2]))])
    with pytest.raises(ValueError, match="no tokens"):
        padded([sample()])
    with pytest.raises(ValueError, match="the batch has no samples"):
        shared([])
    with pytest.raises(ValueError, match="tokens must be at least 1"):
        microbatches(family(), 0, is_shared=True)
