"""Attention of one packed step over shared prefixes, each request's own row and fresh tokens.

A step packs one token of every running row and chunks of prompts into one sequence. Each part of a token's
context is attended to on its own, and the parts are merged exactly by their log-sum-exps (as in Hydragen,
arXiv 2402.05099). A prefix shared by many rows is read once for all of them and never copied.

    tokens:   [row 0][row 1][row 2][chunk of prompt a ....][chunk of prompt b ..]
    context:  prefix ∪ own row      prefix ∪ chunk before ∪ own fresh tokens
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

NAME = "turnwise_cascade"
"""The attention's name in transformers' registry."""


@dataclass(frozen=True, slots=True)
class CacheSegment:
    """Cached keys and values that several tokens of the step attend to in full."""

    kv: torch.Tensor
    """[layer, 2, head, token, dim]"""
    index: torch.Tensor | None
    """Indices of those tokens in the step; None: all tokens."""


@dataclass(frozen=True, slots=True)
class Write:
    """Where a chunk's new keys and values are written."""

    kv: torch.Tensor
    start: int
    first: int
    """Index of the chunk's first token in the step."""
    length: int


@dataclass(frozen=True, slots=True)
class AttentionStep:
    """The attention's inputs for one forward pass, built once and read by every layer."""

    num_rows: int
    rows: torch.Tensor
    """[layer, 2, row, head, token, dim]: the running rows, cut to the longest one including its new token."""
    row_ends: torch.Tensor
    """The position in each row at which its new token is written."""
    row_bias: torch.Tensor
    """[row, 1, 1, token]: -inf past each row's end."""
    segments: tuple[CacheSegment, ...]
    writes: tuple[Write, ...]
    fresh_bias: torch.Tensor | None
    """[1, 1, P, P] over P prompt tokens: -inf for later tokens and other chunks; None for one chunk."""


def row_bias(lengths: Sequence[int], longest: int, device: torch.device) -> torch.Tensor:
    is_visible = torch.arange(longest, device=device)[None] < torch.tensor(lengths, device=device)[:, None]
    return torch.zeros(is_visible.shape, device=device).masked_fill_(~is_visible, -math.inf)[:, None, None]


def fresh_bias(lengths: Sequence[int], device: torch.device) -> torch.Tensor | None:
    if len(lengths) < 2:
        return None
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(device)
    is_visible = (owner[:, None] == owner[None]).tril_()
    return torch.zeros(is_visible.shape, device=device).masked_fill_(~is_visible, -math.inf)[None, None]


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    bias: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention [b, h, q, d] in fp32 and the log-sum-exp [b, h, q] of its scores."""
    if query.device.type == "cpu":
        bias = None if bias is None else bias.to(query.dtype)
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=bias, scale=scale
        )
        return out.float(), lse
    return attend_by_products(query, key, value, scale, bias, is_causal=is_causal)


def attend_by_products(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    bias: torch.Tensor | None = None,
    *,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` in plain matrix products, for devices whose fused kernels do not return the log-sum-exp."""
    scores = torch.matmul(query, key.transpose(-1, -2)).float() * scale
    if is_causal:
        length = query.shape[-2]
        later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu_(1)
        scores.masked_fill_(later, -math.inf)
    if bias is not None:
        scores += bias
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp_(scores - lse[..., None]).to(value.dtype)
    return torch.matmul(weights, value).float(), lse


def cascade(
    query_HND: torch.Tensor,
    key_KND: torch.Tensor,
    value_KND: torch.Tensor,
    step: AttentionStep,
    layer: int,
    scale: float,
) -> torch.Tensor:
    """Write the step's new keys and values in one layer and return its attention [head, token, dim]."""
    num_heads, num_tokens, dim = query_HND.shape
    num_kv_heads = key_KND.shape[0]
    group = num_heads // num_kv_heads
    parts = []
    if step.num_rows:
        parts.append(_attend_rows(query_HND, key_KND, value_KND, step, layer, scale))
    if step.num_rows < num_tokens:
        for write in step.writes:
            chunk = slice(write.first, write.first + write.length)
            place = slice(write.start, write.start + write.length)
            write.kv[layer, 0, :, place] = key_KND[:, chunk]
            write.kv[layer, 1, :, place] = value_KND[:, chunk]
        fresh = slice(step.num_rows, num_tokens)
        keys = key_KND[:, fresh].repeat_interleave(group, 0)[None]
        values = value_KND[:, fresh].repeat_interleave(group, 0)[None]
        is_causal = step.fresh_bias is None
        query = query_HND[None, :, fresh]
        out, lse = attend(query, keys, values, scale, step.fresh_bias, is_causal=is_causal)
        parts.append((out[0], lse[0]))
    out = torch.cat([part[0] for part in parts], 1) if len(parts) > 1 else parts[0][0]
    lse = torch.cat([part[1] for part in parts], 1) if len(parts) > 1 else parts[0][1]
    for segment in step.segments:
        query = query_HND if segment.index is None else query_HND[:, segment.index]
        # Stack all tokens and the query heads that share a key head: one matrix product per key head.
        query = query.reshape(1, num_kv_heads, -1, dim)
        seg_out, seg_lse = attend(query, segment.kv[layer, 0][None], segment.kv[layer, 1][None], scale)
        out, lse = merge(
            out, lse, seg_out.reshape(num_heads, -1, dim), seg_lse.reshape(num_heads, -1), segment.index
        )
    return out


def _attend_rows(
    query_HND: torch.Tensor,
    key_KND: torch.Tensor,
    value_KND: torch.Tensor,
    step: AttentionStep,
    layer: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend from each running row's new token to the row's own keys and values, its new ones included."""
    num_heads, _, dim = query_HND.shape
    num_kv_heads, count = key_KND.shape[0], step.num_rows
    keys, values = step.rows[layer]
    everyone = torch.arange(count, device=keys.device)
    keys[everyone, :, step.row_ends] = key_KND[:, :count].transpose(0, 1)
    values[everyone, :, step.row_ends] = value_KND[:, :count].transpose(0, 1)
    query = query_HND[:, :count].reshape(num_kv_heads, -1, count, dim).permute(2, 0, 1, 3)
    out, lse = attend(query, keys, values, scale, step.row_bias)
    return (
        out.permute(1, 2, 0, 3).reshape(num_heads, count, dim),
        lse.permute(1, 2, 0).reshape(num_heads, count),
    )


def merge(
    out: torch.Tensor,
    lse: torch.Tensor,
    other_out: torch.Tensor,
    other_lse: torch.Tensor,
    index: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Combine attention over two disjoint contexts; `other` covers only the tokens of `index`."""
    own_out, own_lse = (out, lse) if index is None else (out[:, index], lse[:, index])
    both_lse = torch.logaddexp(own_lse, other_lse)
    both_out = own_out * torch.exp(own_lse - both_lse)[..., None]
    both_out += other_out * torch.exp(other_lse - both_lse)[..., None]
    if index is None:
        return both_out, both_lse
    out[:, index], lse[:, index] = both_out, both_lse
    return out, lse


def forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cascade_step: AttentionStep | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention of every layer. Without `cascade_step` it is plain SDPA, so the model stays usable."""
    if cascade_step is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return result
    for option in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if kwargs.get(option) is not None:
            raise ValueError(f"attention with {option} is not supported by the transformers engine")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    out = cascade(query[0].contiguous(), key[0], value[0], cascade_step, layer, scale)
    return out.transpose(0, 1)[None].to(query.dtype).contiguous(), None


def register() -> None:
    """Register the attention with transformers. Idempotent."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
