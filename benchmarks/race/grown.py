"""Takes a small Qwen3, gives a large one that computes the same: its weights in the corners of larger ones.

    python benchmarks/race/grown.py FOLDER [0.6|1.7]     # the embedded model, as large as Qwen3-0.6B or -1.7B

A race over a size wants a model of that size which calls tools, and no hub is at hand. Every product is of
the large size, and what it adds is zero. Exact but for rounding, since
- a norm over more channels, the rest zero, is larger by √(more / few): its weights are smaller by that;
- a head's channel i turns as fast as channel i·(more / few) of a longer head: that is where it goes;
- heads, layers and MLP channels beyond the small model's write nothing;
- tokens beyond its vocabulary are never sampled: one channel that no layer reads or writes has the same small
  value for every token, the last norm makes it large, and their embeddings point away from it.
"""

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

SMALL, LARGE = 1e-3, 1e3
"""Of the channel that keeps tokens away: in the embeddings, and by its weight in the last norm."""
AWAY = 4e3

QWEN3_06B: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""But for its 8 key heads."""

QWEN3_17B: dict[str, Any] = {**QWEN3_06B, "hidden_size": 2048, "intermediate_size": 6144}
"""But for its 8 key heads."""


@torch.no_grad()
def grown(small: Any, sizes: dict[str, Any]) -> Qwen3ForCausalLM:
    """sizes: of a Qwen3Config; none may be below the small model's, and each key head has one query head."""
    old = small.config
    new = Qwen3Config(**{**sizes, "rope_parameters": old.rope_parameters, "rms_norm_eps": old.rms_norm_eps})
    if new.num_key_value_heads != new.num_attention_heads:
        raise ValueError("num_key_value_heads: a head of the small model needs keys of its own")
    large = Qwen3ForCausalLM(new)
    for parameter in large.parameters():
        parameter.zero_()
    by_width = math.sqrt(old.hidden_size / new.hidden_size)
    by_head = math.sqrt(old.head_dim / new.head_dim)
    turned = _turned(old.head_dim, new.head_dim)
    heads = _heads(old.num_attention_heads, new.head_dim, turned)
    for source, target in zip(small.model.layers, large.model.layers, strict=False):
        for name in ("input_layernorm", "post_attention_layernorm"):
            _put(getattr(target, name), getattr(source, name).weight * by_width)
        ours, theirs = target.self_attn, source.self_attn
        # dot products are divided by √head_dim: what that takes too much, the queries bring
        ours.q_norm.weight[turned] = theirs.q_norm.weight.float()
        ours.k_norm.weight[turned] = theirs.k_norm.weight.float() * by_head
        for name in ("q_proj", "k_proj", "v_proj"):
            matrix = getattr(theirs, name).weight.float()
            getattr(ours, name).weight[heads, : matrix.shape[1]] = matrix
        matrix = theirs.o_proj.weight.float()
        ours.o_proj.weight[: len(matrix), heads] = matrix
        for name in ("gate_proj", "up_proj", "down_proj"):
            _put(getattr(target.mlp, name), getattr(source.mlp, name).weight)
    _put(large.model.norm, small.model.norm.weight * by_width)
    large.model.norm.weight[old.hidden_size] = LARGE
    embeddings = large.get_input_embeddings().weight
    embeddings[: old.vocab_size, : old.hidden_size] = small.get_input_embeddings().weight.float()
    embeddings[: old.vocab_size, old.hidden_size] = SMALL
    embeddings[old.vocab_size :, old.hidden_size] = -AWAY
    return large


def _put(module: Any, corner: Tensor) -> None:
    module.weight[tuple(slice(size) for size in corner.shape)] = corner.float()


def _turned(few: int, more: int) -> Tensor:
    """Where a short head's channels stand in a longer one: in pairs that turn together, as fast as before."""
    half = torch.arange(few // 2) * (more // few)
    return torch.cat([half, half + more // 2])


def _heads(num_heads: int, head_dim: int, turned: Tensor) -> Tensor:
    return (torch.arange(num_heads)[:, None] * head_dim + turned).flatten()


def main(folder: Path, sizes: dict[str, Any]) -> None:
    from turnwise.chat import load_tokenizer
    from turnwise.config import ModelConfig
    from turnwise.engines.handover import write_model
    from turnwise.workbench import load_model

    tokenizer = load_tokenizer("embedded")
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = grown(load_model(ModelConfig(path="embedded")), {**sizes, **ends})
    folder.mkdir(parents=True, exist_ok=True)
    write_model(model.to(torch.bfloat16), folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), QWEN3_17B if sys.argv[2:] == ["1.7"] else QWEN3_06B)
