"""What a transformers model supports: our attention, and whether its weights are quantised."""

from typing import Any


def why_not_ours(model: Any) -> str:
    """Why our shared-prefix attention cannot replace the model's own; empty if it can."""
    config = model.config
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if layers != {"full_attention"}:
        return f"layers of {sorted(layers)}"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return f"a sliding window of {config.sliding_window} tokens"
    if rope in ("dynamic", "longrope"):
        return f"{rope} positions, which depend on the longest row"
    if not getattr(model, "_supports_attention_backend", False):
        return "an attention that cannot be replaced"
    if getattr(config, "kv_lora_rank", None):
        return "compressed keys and values (kv_lora_rank)"
    return ""


def is_quantised(parameter: Any) -> bool:
    """Whether bitsandbytes has quantised it: its bytes are packed codes, on which arithmetic is invalid."""
    return getattr(parameter, "quant_state", None) is not None
