"""A frozen base of 4 bits per weight (NF4), and the plain numbers behind it.

A weight is a 4-bit code times its block's scale; the scales are quantised again (double quantisation). Packed
bytes and scales never leave this machine: what is published, saved or exported is an adapter, or the
dequantised weights.
"""

import copy
import logging
import os
from typing import Any

import torch
from torch import Tensor, nn

from turnwise.config import ModelConfig
from turnwise.config.optional_packages import install_command
from turnwise.models.model_support import is_quantised

DISABLED = "DISABLE_BITSANDBYTES"
"""Environment variable: 1 makes bitsandbytes count as unavailable on this machine."""

logger = logging.getLogger(__name__)


def why_not() -> str:
    """Return why quantisation does not work on this machine; empty if it does."""
    if os.environ.get(DISABLED, "").strip().lower() not in ("", "0", "false"):
        return f"{DISABLED} is set"
    try:
        import bitsandbytes  # noqa: F401 (only whether it loads)
    except ImportError:
        return f"bitsandbytes is not installed ({install_command('qlora')})"
    except (OSError, RuntimeError) as error:  # it has no build for this machine
        return f"bitsandbytes cannot be loaded: {error}"
    return ""


def settled(model: ModelConfig) -> ModelConfig:
    """Return the settings; if the model cannot be quantised here, log a warning and use a bfloat16 base."""
    if model.quantisation == "none" or not (reason := why_not()):
        return model
    logger.warning("%s: LoRA on a bfloat16 base in the place of %s", reason, model.quantisation)
    return unquantised(model)


def unquantised(model: ModelConfig) -> ModelConfig:
    """Return the settings of a bfloat16 base."""
    return model.model_copy(update={"quantisation": "none", "dtype": "bfloat16"})


def loading_options(dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Return `from_pretrained` options that quantise each weight as it is read; compute in `dtype`."""
    from transformers import BitsAndBytesConfig

    if reason := why_not():
        raise ValueError(f"model.quantisation is 'nf4', and {reason}")
    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": quantisation, "device_map": {"": device}}


def steadied(model: Any) -> Any:
    """Make the model's output independent of whether gradients are on; return the same model.

    On CPUs with bfloat16, bitsandbytes repacks a weight for good when it is first used without gradients.
    The scales are then rounded to 8 bits of precision, the backward pass is lost, and shapes that are not
    multiples of 64 are refused.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return model


def plain(parameter: Tensor) -> Tensor:
    """Return the weight dequantised to its compute dtype; one that is not quantised is only detached."""
    if not is_quantised(parameter):
        return parameter.detach()
    from bitsandbytes.functional import dequantize_4bit

    state: Any = parameter.quant_state  # type: ignore[attr-defined]
    numbers: Tensor = dequantize_4bit(parameter.data, state)
    return numbers.reshape(state.shape)


def plain_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter by name, dequantised."""
    return {name: plain(parameter) for name, parameter in model.named_parameters()}


def twin(model: Any) -> Any:
    """Return a second model that shares the parameters, but has its own adapters and hooks."""
    shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        state = getattr(module, "quant_state", None)
        if state is not None:
            shared[id(state)] = state
    return copy.deepcopy(model, shared)
