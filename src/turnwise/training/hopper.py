"""Attention along a packed tree on a Hopper GPU; tensors are [N, heads, dim] as in `flash`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from turnwise.training import cudnn, tree_flash
from turnwise.training.tree import Segment

BACKWARD = ""
"""Which kernels compute gradients: "triton" or "cudnn"; empty: `flash` does the whole."""
TUNING = tree_flash.Tuning()
DIMS = (64, 128)


@dataclass(frozen=True, slots=True)
class HopperPlan:
    """What is attended to by what; made once a forward pass, read by every layer."""

    tables: tree_flash.TreePlan
    dense: cudnn.DensePlan


def plan_hopper(segments: Sequence[Segment], num_before: int, device: torch.device) -> HopperPlan:
    tables = tree_flash.plan_tree(segments, num_before, device, TUNING)
    return HopperPlan(tables, cudnn.plan_dense(segments, num_before, device))


def can_hopper(query: Tensor) -> bool:
    if not BACKWARD or query.device.type != "cuda" or query.shape[-1] not in DIMS:
        return False
    return query.dtype in (torch.float16, torch.bfloat16) and _is_hopper(query.device)


@cache
def _is_hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == 9 and find_spec("triton") is not None


class HopperTreeAttention(torch.autograd.Function):
    """[N, H, D] queries on [N, K, D] keys and values; `before`: those [P, K, D] of tokens before the row."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: HopperPlan, scale: float, *before: Tensor
    ) -> Tensor:
        query = query.contiguous()
        keys, values = _with_before(key, value, before)
        out, lse = tree_flash.tree_forward(query, keys, values, plan.tables, scale)
        ctx.save_for_backward(query, key, value, out, lse, *before)
        ctx.plan, ctx.scale = plan, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse, *before = ctx.saved_tensors
        plan: HopperPlan = ctx.plan
        inputs = (grads[0].contiguous(), query, *_with_before(key, value, before), out, lse)
        if BACKWARD == "cudnn":
            found = cudnn.tree_backward(*inputs, plan.dense, ctx.scale)
        else:
            found = tree_flash.tree_backward(*inputs, plan.tables, ctx.scale)
        grad_query, *of_keys = found
        num_before = plan.tables.num_before
        own = (each[num_before:] for each in of_keys)
        outer = (
            each[:num_before].to(each_before.dtype)
            for each, each_before in zip(of_keys, before, strict=False)
        )
        return grad_query, *own, None, None, *outer


def _with_before(key: Tensor, value: Tensor, before: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Keys and values of the whole context, [P + N, K, D]."""
    if not before:
        return key.contiguous(), value.contiguous()
    whole = [torch.cat([first.to(own.dtype), own]) for first, own in zip(before, (key, value), strict=True)]
    return whole[0], whole[1]
