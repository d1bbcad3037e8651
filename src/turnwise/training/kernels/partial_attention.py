"""One piece of attention: its output and log-sum-exp, and its gradients under given ones.

Queries are [b, h, q, d]; keys and values [b, 1 or h, k, d]. The fused kernels of torch are called by their
own names because `scaled_dot_product_attention` keeps the log-sum-exp to itself.
"""

import math

import torch
from torch import Tensor

_aten = torch.ops.aten

_LSE_STEP = 32
"""CUDA's memory-efficient kernel needs log-sum-exps padded to a multiple of this length."""


def forward_piece(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """Return the piece's own output [b, h, q, d] and log-sum-exp [b, h, q]."""
    key, value = _same_heads(query, key, value)
    match _kernel(query):
        case "cpu":
            out, lse = _aten._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, 0.0, is_causal, scale=scale
            )
        case "efficient":
            out, lse, *_ = _aten._scaled_dot_product_efficient_attention(
                query, key, value, None, True, 0.0, is_causal, scale=scale
            )
            lse = lse[..., : query.shape[-2]]
        case _:
            scores = _scores(query, key, scale, is_causal=is_causal)
            lse = torch.logsumexp(scores, -1)
            out = torch.matmul(torch.exp(scores - lse[..., None]).to(value.dtype), value)
    return out, lse


def backward_piece(
    query: Tensor,
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of queries, keys and values [b, h, ...]; `out` and `lse` are of the whole context."""
    key, value = _same_heads(query, key, value)
    match _kernel(query):
        case "cpu":
            grads = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad_out, query, key, value, out, lse, 0.0, is_causal, scale=scale
            )
        case "efficient":
            unused = torch.empty((), dtype=torch.long)
            lse = torch.nn.functional.pad(lse, (0, -lse.shape[-1] % _LSE_STEP), value=math.inf)
            *grads, _ = _aten._scaled_dot_product_efficient_attention_backward(
                grad_out, query, key, value, None, out, lse, unused, unused, 0.0,
                [True, True, True, False], is_causal, scale=scale,
            )  # fmt: skip
        case _:
            grads = _backward_by_products(query, out, lse, grad_out, key, value, scale, is_causal=is_causal)
    grad_query, grad_key, grad_value = grads
    return grad_query, grad_key, grad_value


def _same_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    heads = query.shape[1]
    key, value = key.expand(-1, heads, -1, -1), value.expand(-1, heads, -1, -1)
    # CUDA's kernels need a head stride other than 0
    return (key, value) if query.device.type == "cpu" else (key.contiguous(), value.contiguous())


def _kernel(query: Tensor) -> str:
    if query.device.type == "cpu":
        return "cpu"
    if query.device.type == "cuda" and query.shape[-1] % 8 == 0 and query.dtype == torch.float32:
        return "efficient"
    return "products"  # half precision comes here only if `flash` cannot take it


def _scores(query: Tensor, key: Tensor, scale: float, *, is_causal: bool) -> Tensor:
    exact = torch.promote_types(query.dtype, torch.float32)
    scores = torch.matmul(query, key.transpose(-1, -2)).to(exact) * scale
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu_(1)
        scores.masked_fill_(later, -math.inf)
    return scores


def _backward_by_products(
    query: Tensor,
    out: Tensor,
    lse: Tensor,
    grad_out: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    *,
    is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    weights = torch.exp(_scores(query, key, scale, is_causal=is_causal) - lse[..., None])
    grad_value = torch.matmul(weights.to(value.dtype).transpose(-1, -2), grad_out)
    dot = (grad_out.to(lse.dtype) * out).sum(-1, keepdim=True)
    grad_scores = weights * (torch.matmul(grad_out, value.transpose(-1, -2)).to(lse.dtype) - dot) * scale
    grad_scores = grad_scores.to(query.dtype)
    grad_key = torch.matmul(grad_scores.transpose(-1, -2), query)
    return torch.matmul(grad_scores, key), grad_key, grad_value
