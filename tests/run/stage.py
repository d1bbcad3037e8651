"""What runs are tried on: a random tiny model on disk, a real notebook server, tasks, and a recipe."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.models.chat.tokenizers import qwen3
from tests.rollout.stage import NOTEBOOK, task
from turnwise.config import Recipe, read_recipe
from turnwise.tasks.load import save


def write_model(folder: Path) -> Path:
    tokenizer = qwen3()
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=640,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=4096,
        initializer_range=0.1,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_recipe(folder: Path, **sections: Any) -> Path:
    """A recipe that runs in seconds: two tasks a step, groups of three, a reward for even token ids."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "model")
    block = {"command": sys.executable, "args": [str(NOTEBOOK)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notebook": block}}))
    save([task(f"train{number}") for number in range(6)], folder / "train.jsonl")
    save([task(f"held{number}") for number in range(2)], folder / "test.jsonl")
    data: dict[str, dict[str, Any]] = {
        "model": {"path": str(folder / "model")},
        "tools": {"mcp": "mcp.json"},
        "tasks": {"train": "train.jsonl", "validation": "test.jsonl", "test": "test.jsonl"},
        "rollout": {"group_size": 3, "tokens_per_turn": 12, "lockstep": True},
        "optimizer": {"learning_rate": 1e-2},
        "policy": {"lora_rank": 4},
        "run": {"num_steps": 3, "tasks_per_step": 2, "folder": str(folder / "runs"), "name": "run"},
        "evaluation": {"num_samples": 2},
    }
    for section, keys in sections.items():
        data[section] = {**data.get(section, {}), **keys}
    lines = ["[[rewards]]", 'name = "tests.run.own_rewards:even_ids"']
    for section, keys in data.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    path = folder / "recipe.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(folder: Path, **sections: Any) -> Recipe:
    return read_recipe(write_recipe(folder, **sections))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
