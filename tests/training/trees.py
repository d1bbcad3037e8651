"""Trees of segments, and attention under their mask, computed by torch alone."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from tests.training.samples import GIVEN, sample
from turnwise.training.packing.layout import shared
from turnwise.training.packing.tree import Tree

CPU = torch.device("cpu")


def tree_of(lengths: Sequence[Sequence[int]]) -> Tree:
    """The tree of samples that keep some ids of the previous sample and add others: [[kept, added], ...]."""
    source, ids, samples = random.Random(0), [], []
    for kept, added in lengths:
        ids = [*ids[:kept], *(source.randrange(10**6) for _ in range(added))]
        samples.append(sample((GIVEN, list(ids))))
    tree = shared(samples, min_shared=1).tree
    assert tree is not None
    return tree


DEEP = tree_of(
    [[0, 300], [250, 200], [400, 5], [402, 1], [402, 150], [100, 130], [0, 3], [1, 2], [0, 5], [0, 6]]
)


def mask_of(tree: Tree, num_before: int = 0) -> Tensor:
    """Which key every query sees; the keys before the tree are seen by all."""
    size = tree.segments[-1].end
    seen = torch.zeros(size, size, dtype=torch.bool)
    for segment in tree.segments:
        own = slice(segment.start, segment.end)
        seen[own, own] = torch.ones(segment.length, segment.length).tril().bool()
        seen[segment.end : segment.stop, own] = True
    return torch.cat([seen.new_ones(size, num_before), seen], 1)


def draw(
    tree: Tree,
    heads: tuple[int, int] = (6, 2),
    dim: int = 16,
    num_before: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device = CPU,
) -> list[Tensor]:
    """The output's gradient, queries, keys, values, and keys and values before the tree: [n, heads, dim]."""
    generator, size = torch.Generator().manual_seed(0), tree.segments[-1].end
    counts = [(size, heads[0])] * 2 + [(size, heads[1])] * 2 + [(num_before, heads[1])] * 2
    return [
        torch.randn((length, count, dim), generator=generator, dtype=torch.float64).to(device, dtype)
        for length, count in counts
        if length
    ]


def masked_attention(
    tree: Tree, inputs: Sequence[Tensor], scale: float | None = None, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """The output and the gradients of all inputs but the first, by torch's attention under the mask."""
    grad_out, *rest = (tensor.to(dtype) for tensor in inputs)
    leaves = [tensor.clone().requires_grad_() for tensor in rest]
    query, key, value, *before = leaves
    num_before = len(before[0]) if before else 0
    if before:
        key, value = torch.cat([before[0], key]), torch.cat([before[1], value])
    by_head = [tensor.transpose(0, 1)[None] for tensor in (query, key, value)]
    mask = mask_of(tree, num_before).to(query.device)
    plain = torch.nn.functional.scaled_dot_product_attention
    out = plain(*by_head, attn_mask=mask, scale=scale, enable_gqa=True)[0].transpose(0, 1)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad_out)]


def gap(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """The largest difference between entries."""
    pairs = zip(ones, others, strict=True)
    return max((one.double() - other.double()).abs().max().item() for one, other in pairs)
