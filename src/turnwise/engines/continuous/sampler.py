"""Sample one token per row from logits and one uniform number per row.

A row's number depends only on its request (seed, prompt, position), so the rest of the batch does not affect
the draw.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Draw:
    """The parameters for sampling one row's next token."""

    uniform: float
    temperature: float
    top_p: float


def stream_key(seed: int, prompt_ids: Sequence[int]) -> bytes:
    """The key of a request's random stream. The prompt is part of it: equal seeds draw differently."""
    digest = hashlib.blake2b(str(seed).encode(), digest_size=16)
    digest.update(struct.pack(f"<{len(prompt_ids)}q", *prompt_ids))
    return digest.digest()


def uniform(key: bytes, position: int) -> float:
    """The random number in (0, 1) at one position of a stream."""
    word = hashlib.blake2b(struct.pack("<q", position), key=key, digest_size=6).digest()
    # 48 bits plus a half: the result is never 0 and, scaled in fp64, never the total itself.
    return (int.from_bytes(word, "little") + 0.5) / 2**48


def sample(logits_BV: torch.Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """Return ids and log-probs. If a row's logits hold NaN, its log-prob is not finite."""
    logits_BV = logits_BV.float()
    if logits_BV.device.type == "mps":
        logits_BV = logits_BV.cpu()  # MPS has no fp64, which the running sum needs
    device = logits_BV.device
    if any(draw.temperature not in (0.0, 1.0) for draw in draws):
        temperatures = torch.tensor([draw.temperature or 1.0 for draw in draws], device=device)
        logits_BV = logits_BV / temperatures[:, None]
    lse_B = torch.logsumexp(logits_BV, -1)
    if all(draw.temperature == 0 for draw in draws):
        ids_B = logits_BV.argmax(-1)
    else:
        ids_B = _draw(logits_BV, lse_B, draws)
    logprobs_B = logits_BV.gather(-1, ids_B[:, None])[:, 0] - lse_B
    return ids_B.tolist(), logprobs_B.tolist()


def _draw(logits_BV: torch.Tensor, lse_B: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    probs_BV = torch.exp(logits_BV - lse_B[:, None])
    for row, draw in enumerate(draws):
        if draw.temperature and draw.top_p < 1:
            probs_BV[row] = nucleus(probs_BV[row], draw.top_p)
    # fp64: in fp32 the running sum's steps near 1 are 6e-8, as large as a rare token's whole probability.
    sums_BV = torch.cumsum(probs_BV, -1, dtype=torch.float64)
    uniforms_B = torch.tensor([draw.uniform for draw in draws], dtype=torch.float64)
    targets_B1 = uniforms_B.to(sums_BV.device)[:, None] * sums_BV[:, -1:]
    # right=True: the first id whose running sum exceeds the target, so an id of probability 0 is never drawn.
    ids_B = torch.searchsorted(sums_BV, targets_B1, right=True)[:, 0]
    ids_B = ids_B.clamp_(max=logits_BV.shape[-1] - 1)  # NaN rows run past the end
    greedy_B = torch.tensor([draw.temperature == 0 for draw in draws], device=logits_BV.device)
    return torch.where(greedy_B, logits_BV.argmax(-1), ids_B)


def nucleus(probs_V: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the most likely tokens that together reach `top_p`; set the other probabilities to 0."""
    ordered_V, order_V = probs_V.sort(descending=True)
    before_V = ordered_V.cumsum(-1) - ordered_V
    return torch.zeros_like(probs_V).scatter_(0, order_V, torch.where(before_V < top_p, ordered_V, 0.0))
