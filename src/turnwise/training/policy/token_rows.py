"""Trained rows of a few tokens in a frozen model's embeddings and head, beside its LoRA adapters.

Adapters do not reach the embeddings and the head. Tokens that pretraining never used have almost the same row
there: whatever the adapters learn, the model cannot say one of them and not the others. Rows are stored as
differences to the frozen ones.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

ROWS, HEAD_ROWS = "lora_rows", "lora_head_rows"
"""The names of the modules in the model; like those of adapters they begin with `lora_`."""


class TokenRows(nn.Module):
    """Differences to the rows of some tokens, one parameter by the name of its adapter."""

    ids_K: Tensor
    slot_V: Tensor

    def __init__(self, weight_VD: Tensor, ids: Sequence[int], adapter: str) -> None:
        super().__init__()
        self.adapter = adapter
        self.is_active = True
        """Whether the adapter is in use."""
        where = weight_VD.device
        self.register_buffer("ids_K", torch.tensor(ids, device=where), persistent=False)
        slot_V = torch.full((len(weight_VD),), len(ids), device=where)
        slot_V[self.ids_K] = torch.arange(len(ids), device=where)
        self.register_buffer("slot_V", slot_V, persistent=False)
        # as peft does for adapters: fp32, unless the base is more precise
        exact = torch.promote_types(weight_VD.dtype, torch.float32)
        self.register_parameter(adapter, nn.Parameter(torch.zeros_like(weight_VD[: len(ids)], dtype=exact)))

    @property
    def rows_KD(self) -> Tensor:  # noqa: N802 (names of tensors carry their axes)
        rows: Tensor = getattr(self, self.adapter)
        return rows

    def added_to(self, weight_VD: Tensor) -> Tensor:
        """A copy of the weight with the trained rows."""
        with torch.no_grad():
            exact_KD = weight_VD[self.ids_K].to(self.rows_KD.dtype) + self.rows_KD
            return weight_VD.index_copy(0, self.ids_K, exact_KD.to(weight_VD.dtype))

    def embed(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """A hook on the embeddings: add the differences of the tokens that have one."""
        if not self.is_active:
            return output
        rows_KD = self.rows_KD
        padded_KD = torch.cat([rows_KD, rows_KD.new_zeros(1, rows_KD.shape[1])])
        return output + nn.functional.embedding(self.slot_V[args[0]], padded_KD).to(output.dtype)


def add_rows(model: Any, ids: Sequence[int], adapter: str) -> list[TokenRows]:
    """Give the model trained rows for these tokens; tied embeddings and head share theirs."""
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if outside := [token for token in ids if not 0 <= token < len(embeddings.weight)]:
        raise ValueError(f"policy.lora_tokens: the model has no token {outside[0]}")
    rows = [TokenRows(embeddings.weight, ids, adapter)]
    model.add_module(ROWS, rows[0])
    embeddings.register_forward_hook(rows[0].embed)
    if head.weight is not embeddings.weight:
        rows.append(TokenRows(head.weight, ids, adapter))
        model.add_module(HEAD_ROWS, rows[1])
    return rows


def head_rows(model: Any) -> TokenRows | None:
    """The rows that the head uses now; None if it has none or its adapter is not in use."""
    rows: TokenRows | None = getattr(model, HEAD_ROWS, None) or getattr(model, ROWS, None)
    return rows if rows is not None and rows.is_active else None
