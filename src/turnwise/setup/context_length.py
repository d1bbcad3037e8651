"""Whether the model can read episodes of the length that the recipe allows, before any is played."""

from typing import Any

from turnwise.models.places import model_place


def require_context(path: str, longest: int, model: Any = None) -> None:
    """Raise ValueError if not: an episode that outgrows the context would end the run midway.

    `longest`: of the episodes, in tokens. `model` replaces the model of this path.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model_place(path)) if model is None else model.config
    context = getattr(config.get_text_config(), "max_position_embeddings", None)
    if context is not None and longest > context:
        raise ValueError(
            f"rollout.tokens_per_episode is {longest}, and the model's context is {context}: lower it"
        )
