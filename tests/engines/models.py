"""Tiny models with random weights, and the plain forward pass that every engine is compared with."""

import copy
import random
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from turnwise.engines.transformers import TransformersEngine
from turnwise.types import Completion

VOCAB = 500
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    # Ten times the usual: attention that is nearly uniform would hide a wrong position or a lost segment.
    "initializer_range": 0.2,
    "eos_token_id": None,
    "pad_token_id": 0,
    "bos_token_id": None,
}


@cache
def _qwen3(seed: int, head_dim: int) -> Any:
    torch.manual_seed(seed)
    sizes = SIZES | {"head_dim": head_dim}
    return Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)).eval()


def qwen3(seed: int = 0, *, head_dim: int = 16) -> Any:
    """Group queries, rotary positions, query and key norms, tied embeddings."""
    return copy.deepcopy(_qwen3(seed, head_dim))


def llama() -> Any:
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)).eval()


@asynccontextmanager
async def running(model: Any, *, device: str = "cpu", **options: Any) -> AsyncIterator[TransformersEngine]:
    engine = TransformersEngine(model, device=device, **options)
    try:
        yield engine
    finally:
        await engine.close()


def plain_logprobs(
    model: Any, prompt_ids: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """One forward pass over the whole sequence, no cache: what a trainer computes."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt_ids, *token_ids]])).logits[0].float() / temperature
    logprobs = logits.log_softmax(-1)
    start = len(prompt_ids) - 1
    return [logprobs[start + number, token].item() for number, token in enumerate(token_ids)]


def worst_gap(
    model: Any, prompt_ids: Sequence[int], completion: Completion, temperature: float = 1.0
) -> float:
    """The largest distance of a recorded log-prob from the plain one."""
    plain = plain_logprobs(model, prompt_ids, completion.token_ids, temperature)
    return max(abs(a - b) for a, b in zip(plain, completion.logprobs, strict=True))


async def refused(awaitable: Awaitable[Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        await awaitable


def some_ids(source: random.Random, count: int) -> list[int]:
    return [source.randrange(VOCAB) for _ in range(count)]
