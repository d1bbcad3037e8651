"""Whether the model can read episodes of the length that the recipe allows, before any is played."""

from typing import Any

from turnwise.config import Recipe
from turnwise.models.places import model_place


def require_context(recipe: Recipe, model: Any = None) -> None:
    """Raise ValueError if not: an episode that outgrows the context would end the run midway.

    `model` replaces the recipe's model. A remote engine checks its own.
    """
    if recipe.engine.kind not in ("transformers", "vllm"):
        return
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model_place(recipe.model.path)) if model is None else model.config
    context = getattr(config.get_text_config(), "max_position_embeddings", None)
    longest = recipe.rollout.tokens_per_episode
    if context is not None and longest > context:
        raise ValueError(
            f"rollout.tokens_per_episode is {longest}, and the model's context is {context}: lower it"
        )
