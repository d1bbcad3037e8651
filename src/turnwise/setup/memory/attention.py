"""Attention on the meta device that allocates the same tensors as the trainer's attention.

The trainer's attention reads token positions to split its work, and meta tensors have no values. This one
allocates the same tensors as `turnwise.training.kernels.attention`, in the same order, and computes nothing.
"""

from typing import Any

import torch
from torch import Tensor

NAME = "turnwise_planned"
"""The name of the attention in the registry of transformers."""


class _PlannedAttention(torch.autograd.Function):
    """[K, G, N, D] queries on [K, 1, N, D] keys and values; `scores`: shape of the scores if not fused."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scores: tuple[int, ...] | None
    ) -> Tensor:
        exact = torch.promote_types(query.dtype, torch.float32)
        out = torch.empty_like(query, dtype=exact)
        piece = torch.empty_like(query)
        if scores is not None:
            held = [query.new_empty(scores, dtype=exact) for _ in range(2)]
            del held
        lse = query.new_empty(query.shape[:-1], dtype=exact)
        del piece
        out = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.scores = scores
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, _, lse = ctx.saved_tensors
        sums = [torch.zeros_like(tensor, dtype=lse.dtype) for tensor in (query, key, value)]
        # a kernel returns the gradients of keys and values per query head
        parts = [torch.empty_like(query) for _ in range(3)]
        if ctx.scores is not None:
            held = [query.new_empty(ctx.scores, dtype=lse.dtype) for _ in range(3)]
            del held
        del parts
        gradients = [total.to(like.dtype) for total, like in zip(sums, (query, key, value), strict=True)]
        return gradients[0], gradients[1], gradients[2], None


def forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    planned_scores: tuple[int, int] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Called by transformers in every layer; `planned_scores`: queries and keys of the largest piece."""
    num_key_heads = key.shape[1]
    grouped = query[0].view(num_key_heads, -1, *query.shape[2:])
    scores = None if planned_scores is None else (*grouped.shape[:2], *planned_scores)
    out: Tensor = _PlannedAttention.apply(grouped, key[0, :, None], value[0, :, None], scores)  # type: ignore[no-untyped-call]
    return out.permute(2, 0, 1, 3).flatten(1, 2)[None], None


def register() -> None:
    """Register the attention with transformers; repeated calls have no effect."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
