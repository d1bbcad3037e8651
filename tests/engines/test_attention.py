"""Attention in parts, merged, is attention over the whole."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from turnwise.engines.continuous.attention import attend, attend_by_products, fresh_bias, merge, row_bias

CPU = torch.device("cpu")


def tensors(*lengths: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, length, 8) for length in lengths]


@pytest.mark.parametrize("way", [attend, attend_by_products])
@pytest.mark.parametrize("kind", ["plain", "causal", "masked"])
def test_both_ways_are_torchs_attention_with_its_log_sum_exp(way: object, kind: str) -> None:
    query, key, value = tensors(6, 6, 6)
    bias = row_bias([2, 6], 6, CPU) if kind == "masked" else None
    is_causal = kind == "causal"
    assert callable(way)
    out, lse = way(query, key, value, 0.3, bias, is_causal=is_causal)
    expected = scaled_dot_product_attention(query, key, value, bias, is_causal=is_causal, scale=0.3)
    assert torch.allclose(out, expected, atol=1e-6)
    scores = query @ key.transpose(-1, -2) * 0.3
    if bias is not None:
        scores = scores + bias
    if is_causal:
        scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
    assert torch.allclose(lse, scores.logsumexp(-1), atol=1e-5)


@pytest.mark.parametrize("index", [None, [0, 2]])
def test_two_contexts_merged_are_one(index: list[int] | None) -> None:
    query, key, value = (tensor[0] for tensor in tensors(4, 9, 9))
    seen = None if index is None else torch.tensor(index)
    first = attend(query[None], key[None, :, :5], value[None, :, :5], 1.0)
    some = query if seen is None else query[:, seen]
    second = attend(some[None], key[None, :, 5:], value[None, :, 5:], 1.0)
    whole = attend(query[None], key[None], value[None], 1.0)
    out, lse = merge(first[0][0].clone(), first[1][0].clone(), second[0][0], second[1][0], seen)
    for token in range(4):
        is_merged = index is None or token in index
        expected = whole if is_merged else first
        assert torch.allclose(out[:, token], expected[0][0][:, token], atol=1e-6)
        assert torch.allclose(lse[:, token], expected[1][0][:, token], atol=1e-5)


def test_fresh_tokens_see_the_earlier_ones_of_their_own_chunk() -> None:
    bias = fresh_bias([2, 3], CPU)
    assert bias is not None
    seen = (bias[0, 0] == 0).int().tolist()
    assert seen == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert fresh_bias([4], CPU) is None
