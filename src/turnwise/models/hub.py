"""Which models the Hugging Face hub or its cache can provide, known in seconds.

The hub's own library retries every file of a model for half a minute if there is no network.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

_CONNECT_SECONDS = 5.0
_OFFLINE = "HF_HUB_OFFLINE"
_WEIGHTS, _SHARDS = "model.safetensors", "model.safetensors.index.json"


class ModelNotFound(ValueError):
    """`model.path` is no folder, and the hub does not have it or cannot be reached."""


def require_reachable(path: str) -> None:
    """Raise ModelNotFound if `path` is no folder and no cached model, and the hub cannot be reached.

    A cached model is then read from the cache alone, also by processes that this one starts.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError

    if Path(path).expanduser().is_dir():
        return
    try:
        is_cached = _cached_file(path, "config.json") is not None
    except HFValidationError:
        raise ModelNotFound(f"model.path: {path}: no such folder") from None
    why = why_unreachable()
    if why and is_cached:
        os.environ[_OFFLINE] = "1"
        constants.HF_HUB_OFFLINE = True  # read once from the environment, at the library's import
    elif why:
        raise ModelNotFound(f"model.path: {path}: no such folder, and {why}")


def why_unreachable() -> str:
    """Why no model can be loaded from the hub; empty if it answers, or if a proxy may reach it."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return f"{_OFFLINE} is set"
    url = urlsplit(constants.ENDPOINT)
    if url.scheme in getproxies():
        return ""  # a proxy may reach the hub although this machine cannot connect to it
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        with contextlib.closing(socket.create_connection((url.hostname, port), _CONNECT_SECONDS)):
            return ""
    except OSError as error:
        return f"{url.hostname} cannot be reached ({error})"


def cached_chat_models() -> Iterator[str]:
    """The hub names of language models that are complete in the hub's cache and have a chat template."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError

    for folder in sorted(Path(constants.HF_HUB_CACHE).glob("models--*--*")):
        name = folder.name.removeprefix("models--").replace("--", "/")
        with contextlib.suppress(HFValidationError):  # a folder that the hub's library did not make
            if _is_chat_model(name) and _has_weights(name):
                yield name


def _is_chat_model(name: str) -> bool:
    kind = "".join(_cached_json(name, "config.json").get("architectures") or ())
    has_template = _cached_file(name, "chat_template.jinja") is not None or "chat_template" in _cached_json(
        name, "tokenizer_config.json"
    )
    return kind.endswith("ForCausalLM") and has_template


def _has_weights(name: str) -> bool:
    if _cached_file(name, _WEIGHTS) is not None:
        return True
    shards = set(_cached_json(name, _SHARDS).get("weight_map", {}).values())
    return bool(shards) and all(_cached_file(name, shard) is not None for shard in shards)


def _cached_json(name: str, file: str) -> dict[str, Any]:
    """The content of a cached JSON object; empty if it is not there or damaged."""
    path = _cached_file(name, file)
    try:
        content = json.loads(path.read_text("utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _cached_file(name: str, file: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, file)
    return Path(cached) if isinstance(cached, str) else None
