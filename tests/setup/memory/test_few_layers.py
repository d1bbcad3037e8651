"""A plan from a few layers equals one from all of them."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, PreTrainedConfig

from tests.setup.memory.shaped import QWEN3_06B, shallow
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.setup.memory import few_layers
from turnwise.setup.memory.memory import outline_models
from turnwise.setup.memory.passes import PassMemory, training_memory

NUM_LAYERS = 9


def recipe_of(folder: Path, shape: PreTrainedConfig, **keys: Any) -> Recipe:
    shape.save_pretrained(folder)
    settings = {"model.path": folder, "model.dtype": "bfloat16", "rollout.tokens_per_episode": 512, **keys}
    return read_recipe(None, parse_settings([f"{key}={value}" for key, value in settings.items()]))


def measured(recipe: Recipe) -> PassMemory:
    policy = outline_models(recipe).policy
    return training_memory(policy, recipe.sizes, recipe.rollout, recipe.run.tasks_per_step, "cpu")


@pytest.mark.parametrize("tuning", ["lora", "full"])
@pytest.mark.parametrize("recomputed", ["false", "1", "4", "8", "true"])
def test_a_few_layers_give_the_memory_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tuning: str, recomputed: str
) -> None:
    keys = {"policy.tuning": tuning, "policy.gradient_checkpointing": recomputed}
    recipe = recipe_of(tmp_path, shallow(QWEN3_06B, NUM_LAYERS), **keys)
    found = measured(recipe)
    monkeypatch.setattr(few_layers, "FEW", (NUM_LAYERS, NUM_LAYERS))
    assert found == measured(recipe)


def test_layers_that_differ_are_all_measured(tmp_path: Path) -> None:
    """The last layer is dense, the others have experts."""
    shape = AutoConfig.for_model(
        "qwen3_moe",
        vocab_size=512,
        hidden_size=64,
        intermediate_size=4_096,
        moe_intermediate_size=32,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        mlp_only_layers=[NUM_LAYERS - 1],
    )
    recipe = recipe_of(tmp_path, shape, **{"policy.tuning": "full"})
    model = outline_models(recipe).policy.model
    numbers: list[int] = []

    def measure(num_recomputed: int) -> few_layers.HeldBytes:
        numbers.append(model.config.num_hidden_layers)
        assert num_recomputed == 4
        return few_layers.HeldBytes(1, 1, 1)

    few_layers.by_layers(model, 4, measure)
    assert numbers == [NUM_LAYERS]
