"""A frozen base of 4 bits per weight (NF4), and the plain numbers behind it.

A weight is 4 bits and a share of its block's scale; the scales are quantised once more (double quantisation).
These packed bytes and scales are nobody's business but this machine's: what is published, saved or exported
is an adapter, or the plain numbers that the packed ones stand for.
"""

import copy
import logging
import os
from typing import Any

import torch
from torch import Tensor, nn

from turnwise.config import Recipe
from turnwise.runtime.model_support import is_quantised

DISABLED = "DISABLE_BITSANDBYTES"
"""Of the environment: 1 stands for a machine on which the library does not work."""

logger = logging.getLogger(__name__)


def why_not() -> str:
    """Why nothing can be quantised here; empty if it can."""
    if os.environ.get(DISABLED, "").strip().lower() not in ("", "0", "false"):
        return f"{DISABLED} is set"
    try:
        import bitsandbytes  # noqa: F401 (only whether it loads)
    except ImportError:
        return "bitsandbytes is not installed (pip install 'turnwise[qlora]')"
    except (OSError, RuntimeError) as error:  # it has no build for this machine
        return f"bitsandbytes cannot be loaded: {error}"
    return ""


def settled(recipe: Recipe) -> Recipe:
    """The recipe; where its base cannot be quantised here, with LoRA on a bfloat16 one, said in a line."""
    if recipe.model.quantisation == "none" or not (reason := why_not()):
        return recipe
    logger.warning("%s: LoRA on a bfloat16 base in the place of %s", reason, recipe.model.quantisation)
    return unquantised(recipe)


def unquantised(recipe: Recipe) -> Recipe:
    """The recipe with a bfloat16 base."""
    model = recipe.model.model_copy(update={"quantisation": "none", "dtype": "bfloat16"})
    return recipe.model_copy(update={"model": model})


def loading_options(dtype: torch.dtype, device: str) -> dict[str, Any]:
    """What `from_pretrained` takes to quantise each weight as it is read; `dtype` is computed in."""
    from transformers import BitsAndBytesConfig

    if reason := why_not():
        raise ValueError(f"model.quantisation is 'nf4', and {reason}")
    quantisation = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": quantisation, "device_map": {"": device}}


def steadied(model: Any) -> Any:
    """The same model, whose numbers do not depend on whether gradients are on.

    On CPUs with bfloat16 the library repacks a weight for good as it is first used without gradients: scales
    rounded to 8 bits of precision, no backward pass any more, and a shape refused that is no multiple of 64.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model


def plain(parameter: Tensor) -> Tensor:
    """What it stands for, in the type that is computed in; a plain one is given back as it is."""
    if not is_quantised(parameter):
        return parameter.detach()
    from bitsandbytes.functional import dequantize_4bit

    state: Any = parameter.quant_state  # type: ignore[attr-defined]
    numbers: Tensor = dequantize_4bit(parameter.data, state)
    return numbers.reshape(state.shape)


def plain_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter by name, as numbers."""
    return {name: plain(parameter) for name, parameter in model.named_parameters()}


def twin(model: Any) -> Any:
    """A model of its own on the very same parameters: adapters and hooks of one are not the other's."""
    shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        state = getattr(module, "quant_state", None)
        if state is not None:
            shared[id(state)] = state
    return copy.deepcopy(model, shared)
