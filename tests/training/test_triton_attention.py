"""Our Triton attention: its tables on any machine; its kernels where Triton can interpret them on a CPU.

CI does not install Triton, so the kernels are skipped there; tests/gpu/test_kernels.py runs them on a GPU.
With Triton installed, `TRITON_INTERPRET=1 pytest tests/training/test_triton_attention.py` runs them on a CPU.
"""

import logging
import os
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.trees import CPU, DEEP, mask_of, tree_of
from turnwise.training.kernels import triton_attention
from turnwise.training.kernels.triton_attention import (
    ALIGNED,
    BY_KEYS,
    BY_QUERIES,
    FORWARD,
    TritonPlan,
    plan_triton,
    trial_gap,
)
from turnwise.training.packing.tree import Tree, TreeSegment

ONE_ROW = Tree((TreeSegment(0, 700, 700),))


def seen_by_queries(plan: TritonPlan, table: Tensor, size: int, num_keys: int) -> Tensor:
    """How often every query sees every key, according to a table of query blocks."""
    count = torch.zeros(num_keys - plan.num_before, num_keys, dtype=torch.int32)
    ranges = plan.ranges.tolist()
    for row, end, own, first, last in table.tolist():
        for query in range(row, min(row + size, end)):
            for low, high in ranges[first:last]:
                count[query, low:high] += 1
            count[query, own : query + plan.num_before + 1] += 1
    return count


def seen_by_keys(plan: TritonPlan, num_keys: int) -> Tensor:
    """How often every query sees every key, according to the table of key blocks."""
    count = torch.zeros(num_keys - plan.num_before, num_keys, dtype=torch.int32)
    for row, end, low, stop in plan.by_keys.tolist():
        for key in range(row, min(row + BY_KEYS.keys, end)):
            count[max(low, key - plan.num_before) : stop, key] += 1
    return count


def check_tables(tree: Tree, num_before: int) -> None:
    plan = plan_triton(tree.segments, num_before, CPU)
    expected = mask_of(tree, num_before).int()
    num_keys = expected.shape[1]
    assert seen_by_queries(plan, plan.forward, FORWARD.queries, num_keys).equal(expected)
    assert seen_by_queries(plan, plan.by_queries, BY_QUERIES.queries, num_keys).equal(expected)
    assert seen_by_keys(plan, num_keys).equal(expected)


@pytest.mark.parametrize("num_before", [0, 70, 300])
@pytest.mark.parametrize("tree", [DEEP, ONE_ROW], ids=["deep", "one row"])
def test_the_tables_are_the_mask(tree: Tree, num_before: int) -> None:
    check_tables(tree, num_before)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 200)), min_size=1, max_size=6),
    st.sampled_from([0, 1, 130]),
)
@settings(max_examples=10, deadline=None)
def test_the_tables_of_any_tree_are_the_mask(lengths: list[tuple[int, int]], num_before: int) -> None:
    check_tables(tree_of(lengths), num_before)


def test_tables_are_aligned_so_that_no_kernel_is_compiled_twice() -> None:
    for num_tails in range(1, 6):
        tree = tree_of([(0, 300), *((200, 50 + number) for number in range(num_tails))])
        plan = plan_triton(tree.segments, 0, CPU)
        for table in (plan.ranges, plan.forward, plan.by_queries, plan.by_keys):
            assert table.storage_offset() % ALIGNED == 0


def test_blocks_with_the_most_work_come_first() -> None:
    plan = plan_triton(DEEP.segments, 70, CPU)
    num_queries = plan.by_keys[:, 3] - plan.by_keys[:, 2]
    assert num_queries.equal(num_queries.sort(descending=True).values)


@pytest.mark.parametrize("fault", ["no Triton", "wrong results"])
def test_flash_attention_replaces_kernels_that_do_not_work(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trial(*_: object) -> float:
        if fault == "no Triton":
            raise ModuleNotFoundError("No module named 'triton'")
        return float("nan")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(triton_attention, "trial_gap", trial)
    triton_attention._works.cache_clear()
    triton_attention._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not triton_attention._works(torch.device("cuda"), torch.bfloat16, 4, 2, 64)
    triton_attention._works.cache_clear()
    assert len(caplog.records) == 1, "one trial, one warning"
    assert "flash" in caplog.text


@pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and TRITON_INTERPRET=1; CI has neither",
)
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("heads", [(2, 2), (4, 1)], ids=str)
def test_interpreted_kernels_compute_plain_attention(heads: tuple[int, int], dim: int) -> None:
    assert trial_gap(CPU, torch.float32, *heads, dim) < 1e-5
