"""Write a model folder of a known shape: random weights and the embedded tokenizer, one file per layer.

It shows the cost of a model's size without the hub. On a GPU, 15 GB of weights are drawn in seconds; writing
them to disk takes most of the time.

    python -m tests.setup.memory.shaped qwen3-0.6b|7b FOLDER [DEVICE]
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Qwen3Config

from turnwise.models.chat import load_tokenizer

QWEN3_06B = Qwen3Config(
    vocab_size=151_936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    tie_word_embeddings=True,
    max_position_embeddings=40_960,
)
SEVEN_B = Qwen3Config(
    vocab_size=152_064,
    hidden_size=3584,
    intermediate_size=18_944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    head_dim=128,
    tie_word_embeddings=False,
    max_position_embeddings=32_768,
)


def _qwen3(hidden: int, intermediate: int, num_layers: int, num_heads: int, *, is_tied: bool) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=is_tied,
        max_position_embeddings=40_960,
    )


QWEN3 = {
    "Qwen3-0.6B": QWEN3_06B,
    "Qwen3-1.7B": _qwen3(2048, 6144, 28, 16, is_tied=True),
    "Qwen3-4B": _qwen3(2560, 9728, 36, 32, is_tied=True),
    "Qwen3-8B": _qwen3(4096, 12_288, 36, 32, is_tied=False),
}
"""Shapes as on the model cards."""
SHAPES = {"qwen3-0.6b": QWEN3_06B, "7b": SEVEN_B}

WEIGHT_STD = 0.02
"""Standard deviation of the weights, as in transformers; the weights of norms are 1."""


def shallow(config: Qwen3Config, num_layers: int = 4) -> Qwen3Config:
    """The same shape with fewer layers, which is planned in a fraction of the time."""
    return Qwen3Config(**{**config.to_diff_dict(), "num_hidden_layers": num_layers, "layer_types": None})


def write_shape(config: Qwen3Config, folder: Path, device: str) -> None:
    """Write the model in bfloat16, with an index of its files."""
    tokenizer = load_tokenizer("embedded")
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    config.architectures, config.dtype = ["Qwen3ForCausalLM"], "bfloat16"
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with torch.device("meta"):
        outline = cast("Any", AutoModelForCausalLM).from_config(config)
    files: dict[str, list[str]] = defaultdict(list)
    for name, _ in outline.named_parameters():  # does not repeat a tied head
        files["-".join(name.split(".")[1:3]) if ".layers." in name else name].append(name)
    total, places = 0, dict[str, str]()
    for file, names in files.items():
        tensors = {name: _random_weight(outline.get_parameter(name).shape, device) for name in names}
        save_file(tensors, folder / f"{file}.safetensors", metadata={"format": "pt"})
        total += sum(tensor.nbytes for tensor in tensors.values())
        places |= dict.fromkeys(names, f"{file}.safetensors")
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _random_weight(shape: torch.Size, device: str) -> torch.Tensor:
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    weight = torch.empty(shape, dtype=torch.bfloat16, device=device)
    return weight.normal_(std=WEIGHT_STD).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    write_shape(SHAPES[sys.argv[1]], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "cpu")
