"""A model's configuration, and its outline on the meta device: no weights are read."""

from typing import Any, cast

from turnwise.config import ModelConfig
from turnwise.models.hub import require_reachable
from turnwise.models.places import model_place


def load_config(path: str) -> Any:
    """The configuration of `embedded`, `smollm2`, a folder or a hub name.

    Raises ValueError if the model is missing or the hub cannot be reached.
    """
    from transformers import AutoConfig

    place = model_place(path)
    require_reachable(place)
    try:
        return AutoConfig.from_pretrained(place)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"model.path: {path}: {str(error).splitlines()[0]}") from None


def outline(model: ModelConfig) -> Any:
    """The model with the shape and type of every parameter and no values; a 70B model takes a second."""
    import torch
    from transformers import AutoModelForCausalLM

    config = load_config(model.path)
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # a quantised file is dequantised when it is read
    with torch.device("meta"):
        shape = cast("Any", AutoModelForCausalLM).from_config(config, dtype=getattr(torch, model.dtype))
    return shape.eval()
