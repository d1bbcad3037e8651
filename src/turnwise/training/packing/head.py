"""Log-probs of chosen tokens and entropies from hidden states, without materialising all logits.

The head is applied only to positions that predict a chosen token, one chunk of positions at a time. The
backward pass recomputes the logits of each chunk, so that [tokens, vocabulary] never exists. Logits are kept
only if there are few of them in all (`Room.max_logits`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turnwise.models.devices import to_device

_CHUNK_ROWS = 512
"""The fewest rows of a chunk, if memory allows: smaller chunks read the head's weights too often."""

_FLOOR = -1e4
"""Clamp of log-probs that are multiplied by p: exp(-1e4) is 0 even in fp64, and 0 · −inf is NaN."""


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on the number of logits in memory."""

    max_logits: int
    """The most held at once, in fp32. If all logits fit, they are kept for the backward pass."""
    chunk_logits: int
    """The size of a chunk, unless that is fewer than `_CHUNK_ROWS` rows."""


ON_CPU = Room(1 << 24, 1 << 22)
"""64 MiB at most; a chunk of 16 MiB stays in the cache."""
ON_GPU = Room(1 << 27, 1 << 27)
"""512 MiB: smaller products leave most of a GPU idle."""


def room_on(device: str) -> Room:
    return ON_CPU if device == "cpu" else ON_GPU


@dataclass(frozen=True, slots=True)
class Head:
    """The last linear layer, and the softcap applied to its output."""

    weight_VD: Tensor
    bias_V: Tensor | None
    softcap: float | None = None
    """c in c·tanh(logit/c), as in Gemma; None for no cap."""
    room: Room = ON_CPU
    rows_KD: Tensor | None = None
    """Added to the weight's rows `row_ids_K`: the trained rows of a head that is frozen otherwise."""
    row_ids_K: Tensor | None = None

    def chunks(self, num_rows: int) -> list[slice]:
        vocab_size = self.weight_VD.shape[0]
        step = max(self.room.chunk_logits // vocab_size, _CHUNK_ROWS)
        step = max(1, min(step, self.room.max_logits // vocab_size))
        return [slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step)]

    def logits(self, hidden_UD: Tensor) -> Tensor:
        """Return the model's logits, softcapped, in at least fp32; not divided by a temperature."""
        logits_UV = torch.nn.functional.linear(hidden_UD, self.weight_VD, self.bias_V)
        logits_UV = logits_UV.to(torch.promote_types(logits_UV.dtype, torch.float32))
        if self.rows_KD is not None and self.row_ids_K is not None:
            added_UK = hidden_UD.to(self.rows_KD.dtype) @ self.rows_KD.T
            logits_UV.index_add_(1, self.row_ids_K, added_UK.to(logits_UV.dtype))
        if self.softcap is not None:
            logits_UV = logits_UV.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits_UV


@dataclass(frozen=True, slots=True)
class Choices:
    """The tokens to score, as unique (place, token) pairs in order of place.

    A place is a position and the temperature at which its output is read: samples that were drawn at two
    temperatures may share a position. Computed on the CPU before the model runs: on a GPU, learning the
    number of pairs means waiting for it.
    """

    source_U: Tensor
    """The positions of the places, which are without repeats."""
    temperature_U: Tensor | None
    """The temperatures of the places, in fp32; None if all are 1."""
    row_Q: Tensor
    """For each pair, the index of its place."""
    target_Q: Tensor
    """For each pair, its token."""
    pair_P: Tensor
    """For each requested token, the index of its pair."""
    starts: tuple[int, ...]
    """For each place, the index of its first pair; then the number of pairs."""

    @property
    def source_P(self) -> Tensor:  # noqa: N802 (names of tensors carry their axes)
        """For each requested token, its position."""
        return self.source_U[self.row_Q[self.pair_P]]

    def to(self, device: torch.device) -> "Choices":
        row_Q, target_Q, pair_P = (
            to_device(tensor, device) for tensor in (self.row_Q, self.target_Q, self.pair_P)
        )
        temperature_U = None if self.temperature_U is None else to_device(self.temperature_U, device)
        source_U = to_device(self.source_U, device)
        return Choices(source_U, temperature_U, row_Q, target_Q, pair_P, self.starts)


def choices(source_P: Tensor, target_P: Tensor, temperature_P: Tensor | None = None) -> Choices:
    """The tokens `target_P`, as the positions `source_P` predict them at these temperatures, or all at 1."""
    if temperature_P is None:
        temperature_P = torch.ones(len(source_P))
    values_K, kind_P = torch.unique(temperature_P.float(), return_inverse=True)
    num_kinds, step = max(len(values_K), 1), int(target_P.max()) + 1 if target_P.numel() else 1
    place_P = source_P * num_kinds + kind_P
    pair_Q, pair_P = torch.unique(place_P * step + target_P, return_inverse=True)
    place_U, row_Q, counts_U = torch.unique_consecutive(
        pair_Q // step, return_inverse=True, return_counts=True
    )
    starts = (0, *counts_U.cumsum(0).tolist())
    temperature_U = values_K[place_U % num_kinds] if (values_K != 1).any() else None
    return Choices(place_U // num_kinds, temperature_U, row_Q, pair_Q % step, pair_P, starts)


def score(
    hidden_ND: Tensor, head: Head, asked: Choices, *, with_entropy: bool = True
) -> tuple[Tensor, Tensor]:
    """Return each requested token's log-prob, and the entropy there in nats (NaN if not requested)."""
    hidden_UD = hidden_ND.index_select(0, asked.source_U)
    logprobs_Q, entropy_U = _Scores.apply(  # type: ignore[no-untyped-call]
        hidden_UD, head.weight_VD, head.bias_V, head.rows_KD, asked, head, with_entropy
    )
    entropy_Q = entropy_U.index_select(0, asked.row_Q)
    return logprobs_Q.index_select(0, asked.pair_P), entropy_Q.index_select(0, asked.pair_P)


class _Scores(torch.autograd.Function):
    """Map (hidden_UD, weight_VD, bias_V, rows_KD, choices, head, with_entropy) to (logprobs_Q, entropy_U)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_UD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        rows_KD: Tensor | None,
        asked: Choices,
        head: Head,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden_UD.dtype, torch.float32)
        logprobs_Q = hidden_UD.new_empty(asked.row_Q.shape, dtype=exact)
        entropy_U = hidden_UD.new_full((len(hidden_UD),), math.nan, dtype=exact)
        is_kept = len(hidden_UD) * len(weight_VD) <= head.room.max_logits and head.softcap is None
        kept = []
        chunks = _with_pairs(asked, head.chunks(len(hidden_UD)))
        for chunk, pairs in chunks:
            logprobs_UV = _log_softmax(hidden_UD[chunk], head, asked, chunk)
            row_Q = asked.row_Q[pairs] - chunk.start
            logprobs_Q[pairs] = logprobs_UV[row_Q, asked.target_Q[pairs]]
            if with_entropy:
                entropy_U[chunk] = _entropy(logprobs_UV)
            if is_kept:
                kept.append(logprobs_UV)
        ctx.save_for_backward(hidden_UD, weight_VD, bias_V, rows_KD, entropy_U, *kept)
        ctx.asked, ctx.head, ctx.chunks = asked, head, chunks
        ctx.set_materialize_grads(False)
        return logprobs_Q, entropy_U

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden_UD, weight_VD, bias_V, rows_KD, entropy_U, *kept = ctx.saved_tensors
        asked, head = ctx.asked, ctx.head
        exact = entropy_U.dtype
        grad_hidden_UD = torch.empty_like(hidden_UD) if ctx.needs_input_grad[0] else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=exact) if ctx.needs_input_grad[1] else None
        grad_bias_V = torch.zeros_like(bias_V, dtype=exact) if ctx.needs_input_grad[2] else None
        grad_rows_KD = torch.zeros_like(rows_KD) if ctx.needs_input_grad[3] else None
        for number, (chunk, pairs) in enumerate(ctx.chunks):
            logprobs_UV = kept[number].clone() if kept else _log_softmax(hidden_UD[chunk], head, asked, chunk)
            grad_UV = _grad_logits(logprobs_UV, entropy_U[chunk], asked, chunk, pairs, *grads)
            grad_UV = _through_head(grad_UV, hidden_UD[chunk], head, asked, chunk)
            if grad_bias_V is not None:
                grad_bias_V += grad_UV.sum(0)
            grad_UK = None if rows_KD is None else grad_UV[:, head.row_ids_K].to(rows_KD.dtype)
            if grad_rows_KD is not None and grad_UK is not None:
                grad_rows_KD += grad_UK.T @ hidden_UD[chunk].to(rows_KD.dtype)
            grad_UV = grad_UV.to(hidden_UD.dtype)
            if grad_weight_VD is not None:
                _add_product(grad_weight_VD, grad_UV.T, hidden_UD[chunk])
            if grad_hidden_UD is not None:
                grad_hidden_UD[chunk] = grad_UV @ weight_VD
                if grad_UK is not None:
                    grad_hidden_UD[chunk] += (grad_UK @ rows_KD).to(hidden_UD.dtype)
        return (
            grad_hidden_UD,
            None if grad_weight_VD is None else grad_weight_VD.to(weight_VD.dtype),
            None if grad_bias_V is None else grad_bias_V.to(bias_V.dtype),
            grad_rows_KD,
            None,
            None,
            None,
        )


def _with_pairs(asked: Choices, chunks: Sequence[slice]) -> list[tuple[slice, slice]]:
    """Return each chunk of rows with the range of its pairs."""
    return [(chunk, slice(asked.starts[chunk.start], asked.starts[chunk.stop])) for chunk in chunks]


def _log_softmax(hidden_UD: Tensor, head: Head, asked: Choices, chunk: slice) -> Tensor:
    logits_UV = head.logits(hidden_UD)
    if asked.temperature_U is not None:
        logits_UV.div_(asked.temperature_U[chunk, None])
    return torch.log_softmax(logits_UV, -1)


def _entropy(logprobs_UV: Tensor) -> Tensor:
    return logprobs_UV.exp().mul_(logprobs_UV.clamp(min=_FLOOR)).sum(-1).neg_()


def _grad_logits(
    logprobs_UV: Tensor,
    entropy_U: Tensor,
    asked: Choices,
    chunk: slice,
    pairs: slice,
    grad_logprobs_Q: Tensor | None,
    grad_entropy_U: Tensor | None,
) -> Tensor:
    """Overwrite `logprobs_UV`: Σ g·(1[v = target] − p) for log-probs, −g·p·(log p + H) for the entropy."""
    row_Q, target_Q = asked.row_Q[pairs] - chunk.start, asked.target_Q[pairs]
    total_U = torch.zeros_like(entropy_U)
    if grad_logprobs_Q is not None:
        total_U.index_add_(0, row_Q, grad_logprobs_Q[pairs])
    if grad_entropy_U is None:
        grad_UV = logprobs_UV.exp_().mul_(-total_U[:, None])
    else:
        weight_UV = logprobs_UV.exp()
        grad_UV = logprobs_UV.clamp_(min=_FLOOR).add_(entropy_U[:, None])
        grad_UV.mul_(-grad_entropy_U[chunk, None]).sub_(total_U[:, None]).mul_(weight_UV)
    if grad_logprobs_Q is not None:
        # pairs are unique, so the result does not depend on the order in which threads add
        grad_UV[row_Q, target_Q] += grad_logprobs_Q[pairs]
    return grad_UV


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _through_head(grad_UV: Tensor, hidden_UD: Tensor, head: Head, asked: Choices, chunk: slice) -> Tensor:
    """Convert the gradient of the capped, divided logits to that of the linear layer's output."""
    if asked.temperature_U is not None:
        grad_UV.div_(asked.temperature_U[chunk, None])
    if head.softcap is not None:
        grad_UV.mul_(1 - (head.logits(hidden_UD) / head.softcap) ** 2)
    return grad_UV
