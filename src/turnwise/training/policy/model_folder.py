"""Save a trained policy as a folder that others load: merged weights, or the adapter alone.

    config.json  generation_config.json  model.safetensors     what transformers and vLLM read
    tokenizer.json  tokenizer_config.json  chat_template.jinja
or  adapter_config.json  adapter_model.safetensors             what peft reads, on top of the base
"""

import contextlib
import copy
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turnwise.system.files.free_path import move_to_free
from turnwise.system.files.tree_removal import remove_tree
from turnwise.training.policy.policy import POLICY, Policy

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def plain_model(policy: Policy) -> "PreTrainedModel":
    """Return a plain transformers model with the policy's weights, adapters merged in."""
    from transformers import AutoModelForCausalLM

    learned = cast("Any", policy.model)
    config = copy.deepcopy(learned.config)
    config._attn_implementation = None  # the trainer's attention is not part of the saved model
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # the weights are dequantised
    plain = cast("Any", AutoModelForCausalLM).from_config(config, dtype=learned.dtype)
    weights = policy.weights()
    unknown = plain.load_state_dict(weights, strict=False).unexpected_keys
    missing = dict(plain.named_parameters()).keys() - weights.keys()
    assert not unknown, f"the plain model has no {unknown[:3]}"
    assert not missing, f"the policy has no {sorted(missing)[:3]}"
    plain.generation_config = copy.deepcopy(learned.generation_config)
    model: PreTrainedModel = plain.eval()
    return model


def save_merged(policy: Policy, tokenizer: Any, folder: Path) -> Path:
    """Save weights, config, tokenizer and chat template in the Hugging Face Hub's layout.

    Return the folder that was written: a numbered one if something has appeared at `folder`.
    """
    # Saving imports DeepSpeed if it is installed, and DeepSpeed logs to stdout that it finds no GPU.
    logging.getLogger("DeepSpeed").addFilter(_is_of_use)
    with _part_of(folder) as part:
        plain_model(policy).save_pretrained(part)
        tokenizer.save_pretrained(part)
        return move_to_free(part, folder)


def _is_of_use(record: logging.LogRecord) -> bool:
    return "accelerator" not in record.getMessage()


def save_adapter(policy: Policy, tokenizer: Any, folder: Path, *, base: str) -> Path:
    """Save the adapter in peft's format, and the tokenizer; `base` is the path of the base model.

    Return the folder that was written: a numbered one if something has appeared at `folder`.
    """
    if policy.adapters is None:
        raise ValueError("policy.tuning is 'full': every parameter was trained, there is no adapter")
    if policy.adapters.has_rows:
        raise ValueError(
            "policy.lora_tokens: the rows of some tokens were trained with the adapter, which alone would be "
            "another model: save it merged"
        )
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    peft = policy.adapters.peft
    config = copy.deepcopy(peft.peft_config[POLICY])
    config.base_model_name_or_path = base
    config.inference_mode = True
    tensors = get_peft_model_state_dict(peft, adapter_name=POLICY)
    with _part_of(folder) as part:
        dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(dense, part / "adapter_model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(str(part))
        tokenizer.save_pretrained(part)
        return move_to_free(part, folder)


@contextlib.contextmanager
def _part_of(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `folder`, to be moved when it is complete; removed if it is not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}.part")  # a name that nobody else uses
    part.mkdir()
    try:
        yield part
    finally:
        if reason := remove_tree(part):
            logger.warning("%s cannot be removed: %s", part, reason)
