"""Check whether a model can be loaded from the Hugging Face hub, in seconds.

The hub's own library retries every file of a model for half a minute if there is no network.
"""

import contextlib
import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

_CONNECT_SECONDS = 5.0


class ModelNotFound(ValueError):
    """`model.path` is no folder, and the hub does not have it or cannot be reached."""


def require_reachable(path: str) -> None:
    """Raise ModelNotFound if `path` is no folder and no cached model, and the hub cannot be reached."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(path).expanduser().is_dir():
        return
    try:
        is_cached = isinstance(try_to_load_from_cache(path, "config.json"), str)
    except HFValidationError:
        raise ModelNotFound(f"model.path: {path}: no such folder") from None
    url = urlsplit(constants.ENDPOINT)
    if is_cached or url.scheme in getproxies():
        return  # a proxy may reach the hub although this machine cannot connect to it
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        with contextlib.closing(socket.create_connection((url.hostname, port), _CONNECT_SECONDS)):
            return
    except OSError as error:
        raise ModelNotFound(
            f"model.path: {path}: no such folder, and {url.hostname} cannot be reached ({error})"
        ) from None
