"""Load a tokenizer by model name or folder."""

from pathlib import Path
from typing import Any

from turnwise.models.hub import require_reachable
from turnwise.models.places import model_place


def load_tokenizer(name_or_path: str | Path) -> Any:
    """Load by `embedded`, `smollm2`, folder or hub name. Remote code is off by default.

    ValueError at once if the model is nowhere, or if the hub is needed and cannot be reached.
    """
    from turnwise.models.chat import library

    place = model_place(str(name_or_path))
    require_reachable(place)
    return library.load_tokenizer(place)
