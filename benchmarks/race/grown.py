"""Enlarge a small Qwen3 without changing what it computes: its weights go into corners of larger tensors.

    python benchmarks/race/grown.py FOLDER [0.6|1.7|8]     # the embedded model in Qwen3's sizes

A comparison at some size needs a model of that size that calls tools, and there may be no hub. Every product
has the large size, and the added parts are zero. The result is exact up to rounding, because
- a norm over more channels, the rest zero, is larger by √(more / few), so its weights are divided by that;
- a head's channel i rotates like channel i·(more / few) of a longer head, so it is placed there;
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
"""Value of the channel that suppresses tokens: in the embeddings, and by its weight in the last norm."""
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

QWEN3_8B: dict[str, Any] = {
    **QWEN3_06B,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "tie_word_embeddings": False,
}

SIZES = {
    "0.6": QWEN3_06B,
    "1.7": {**QWEN3_06B, "hidden_size": 2048, "intermediate_size": 6144},
    "8": QWEN3_8B,
}
"""Sizes by billions of parameters. Unlike Qwen3's 8 key heads, every head has its own keys, as in the small
model."""


@torch.no_grad()
def grown(small: Any, sizes: dict[str, Any], dtype: torch.dtype = torch.float32) -> Qwen3ForCausalLM:
    """`sizes` of a Qwen3Config, none below the small model's, whose heads all have their own keys."""
    old = small.config
    new = Qwen3Config(**{**sizes, "rope_parameters": old.rope_parameters, "rms_norm_eps": old.rms_norm_eps})
    if new.num_key_value_heads < old.num_attention_heads:
        raise ValueError("num_key_value_heads: a head of the small model needs keys of its own")
    large = _zeros(new, dtype)
    by_width = math.sqrt(old.hidden_size / new.hidden_size)
    by_head = math.sqrt(old.head_dim / new.head_dim)
    turned = _turned(old.head_dim, new.head_dim)
    # where several query heads read one key head, the first of them is the small model's
    group = new.num_attention_heads // new.num_key_value_heads
    key_heads = _heads(torch.arange(old.num_attention_heads), new.head_dim, turned)
    query_heads = _heads(torch.arange(old.num_attention_heads) * group, new.head_dim, turned)
    for source, target in zip(small.model.layers, large.model.layers, strict=False):
        for name in ("input_layernorm", "post_attention_layernorm"):
            _put(getattr(target, name), getattr(source, name).weight * by_width)
        ours, theirs = target.self_attn, source.self_attn
        # dot products are divided by √head_dim, so the queries are scaled up by the difference
        ours.q_norm.weight[turned] = theirs.q_norm.weight.to(dtype)
        ours.k_norm.weight[turned] = (theirs.k_norm.weight * by_head).to(dtype)
        for name, heads in (("q_proj", query_heads), ("k_proj", key_heads), ("v_proj", key_heads)):
            matrix = getattr(theirs, name).weight.to(dtype)
            getattr(ours, name).weight[heads, : matrix.shape[1]] = matrix
        matrix = theirs.o_proj.weight.to(dtype)
        ours.o_proj.weight[: len(matrix), query_heads] = matrix
        for name in ("gate_proj", "up_proj", "down_proj"):
            _put(getattr(target.mlp, name), getattr(source.mlp, name).weight)
    _put(large.model.norm, small.model.norm.weight * by_width)
    large.model.norm.weight[old.hidden_size] = LARGE
    for embeddings in {large.get_input_embeddings().weight, large.get_output_embeddings().weight}:
        embeddings[: old.vocab_size, : old.hidden_size] = small.get_input_embeddings().weight.to(dtype)
        embeddings[: old.vocab_size, old.hidden_size] = SMALL
        embeddings[old.vocab_size :, old.hidden_size] = -AWAY
    return large


def _zeros(config: Qwen3Config, dtype: torch.dtype) -> Qwen3ForCausalLM:
    """Create the model without random weights, which would take longer than everything else."""
    with torch.device("meta"):
        large = Qwen3ForCausalLM(config).to(dtype)
    large.to_empty(device="cpu")
    large.tie_weights()
    large.model.rotary_emb = type(large.model.rotary_emb)(config)
    for parameter in large.parameters():
        parameter.zero_()
    return large


def _put(module: Any, corner: Tensor) -> None:
    module.weight[tuple(slice(size) for size in corner.shape)] = corner.to(module.weight)


def _turned(few: int, more: int) -> Tensor:
    """Positions of a short head's channels in a longer one: pairs that rotate together, at the same rate."""
    half = torch.arange(few // 2) * (more // few)
    return torch.cat([half, half + more // 2])


def _heads(numbers: Tensor, head_dim: int, turned: Tensor) -> Tensor:
    """Rows of a projection: the channels of these heads that hold a short head's channels."""
    return (numbers[:, None] * head_dim + turned).flatten()


def main(folder: Path, sizes: dict[str, Any]) -> None:
    from turnwise.config import ModelConfig
    from turnwise.engines.weight_transfer import write_model
    from turnwise.models.chat import load_tokenizer
    from turnwise.setup.bench import load_model

    tokenizer = load_tokenizer("embedded")
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = grown(load_model(ModelConfig(path="embedded")), {**sizes, **ends}, torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    write_model(model, folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), SIZES[sys.argv[2] if sys.argv[2:] else "0.6"])
