"""Takes queries, keys and values on the meta device, gives an output that costs what the trainer's costs.

The trainer's own attention looks at numbers to find its pieces, and here there are none: this one holds the
same tensors as `turnwise.training.attention` does, in the same order, and computes nothing.
"""

from typing import Any

import torch
from torch import Tensor

NAME = "turnwise_planned"
"""What the attention is called in transformers' registry."""


class _Planned(torch.autograd.Function):
    """[K, G, N, D] queries on [K, 1, N, D] keys and values; `scores` are held where no kernel fuses them."""

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
        whole = [torch.zeros_like(each, dtype=lse.dtype) for each in (query, key, value)]
        # a kernel gives the gradients of keys and values for every query head
        parts = [torch.empty_like(query) for _ in range(3)]
        if ctx.scores is not None:
            held = [query.new_empty(ctx.scores, dtype=lse.dtype) for _ in range(3)]
            del held
        del parts
        own = [each.to(like.dtype) for each, like in zip(whole, (query, key, value), strict=True)]
        return own[0], own[1], own[2], None


def forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    planned_scores: tuple[int, int] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; `planned_scores`: queries and keys of the largest piece."""
    num_key_heads = key.shape[1]
    grouped = query[0].view(num_key_heads, -1, *query.shape[2:])
    scores = None if planned_scores is None else (*grouped.shape[:2], *planned_scores)
    out: Tensor = _Planned.apply(grouped, key[0, :, None], value[0, :, None], scores)  # type: ignore[no-untyped-call]
    return out.permute(2, 0, 1, 3).flatten(1, 2)[None], None


def register() -> None:
    """Make the attention known to transformers; doing so again changes nothing."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
