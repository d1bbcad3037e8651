"""Find out whether a model can say the tokens of a tool call, and have their rows trained if it cannot.

Pretraining leaves the rows of unused tokens in the head almost alike. A token whose row is like those of n
others gets at most 1 / (n + 1) of the probability, whatever the layers below compute; LoRA adapters, which
change only these layers, cannot teach it. Training the token's own row can.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turnwise.config import Recipe
from turnwise.models.chat import RenderedChat

_ALIKE = 0.05
"""Rows are alike if their difference is at most this share of the row."""
_SMALL = 0.1
"""A row is untrained if it is at most this share of the median row."""
_CHUNK = 16_384
"""Rows compared at once."""


@dataclass(frozen=True, slots=True)
class UntrainedToken:
    """A token that the model can hardly say."""

    id: int
    text: str
    num_alike: int
    """Other tokens with nearly the same row in the head."""
    size: float
    """The norm of its row, relative to the median row."""

    def __str__(self) -> str:
        if self.num_alike:
            return f"{self.text} has the same row in the head as {self.num_alike} unused tokens"
        return f"the row of {self.text} in the head is {self.size:.0%} of a usual one"


def untrained_call_tokens(model: Any, chat: RenderedChat) -> tuple[UntrainedToken, ...]:
    """The tokens of a tool call that pretraining hardly used; empty if a call is plain text."""
    weight_VD = model.get_output_embeddings().weight.detach()
    return tuple(_untrained(weight_VD, chat, [id for id in chat.call_ids if id < len(weight_VD)]))


def _untrained(weight_VD: Tensor, chat: RenderedChat, ids: Sequence[int]) -> Iterator[UntrainedToken]:
    if not ids:
        return
    norms, products = [], []
    rows_KD = weight_VD[list(ids)].float()
    for start in range(0, len(weight_VD), _CHUNK):
        chunk_VD = weight_VD[start : start + _CHUNK]
        norms.append(chunk_VD.float().norm(dim=1))
        products.append(chunk_VD.float() @ rows_KD.T)
    norm_V, product_VK = torch.cat(norms), torch.cat(products)
    for place, token in enumerate(ids):
        own = norm_V[token]
        gap_V = (norm_V**2 + own**2 - 2 * product_VK[:, place]).clamp(min=0).sqrt()
        num_alike = int((gap_V <= _ALIKE * own).sum()) - 1
        size = float(own / norm_V.median())
        if num_alike > 0 or size <= _SMALL:
            yield UntrainedToken(token, chat.decode([token]), max(num_alike, 0), size)


@dataclass(frozen=True, slots=True)
class CallTokenChoice:
    """The recipe with policy.lora_tokens decided, and a sentence about it if there is something to know."""

    recipe: Recipe
    note: str = ""


def choose_call_tokens(recipe: Recipe, model: Any, chat: RenderedChat) -> CallTokenChoice:
    """Decide policy.lora_tokens if it is unset: the tokens of a call, if the model can hardly say them."""
    if recipe.policy.lora_tokens is not None or recipe.policy.tuning != "lora":
        return CallTokenChoice(recipe)
    untrained = untrained_call_tokens(model, chat)
    if not untrained:
        return CallTokenChoice(recipe)
    why = "; ".join(map(str, untrained))
    if not recipe.can_train_tokens or recipe.publishes_adapters:
        note = (
            f"{why}: adapters cannot teach the model to call tools. First warm it up with `turnwise sft` "
            "(without model.quantisation, hardware.strategy = 'data_parallel') and train the result"
        )
        return CallTokenChoice(recipe, note)
    ids = tuple(token.id for token in untrained)
    policy = recipe.policy.model_copy(update={"lora_tokens": ids})
    note = f"{why}: these rows are trained with the adapters (policy.lora_tokens = {list(ids)})"
    return CallTokenChoice(recipe.model_copy(update={"policy": policy}), note)
