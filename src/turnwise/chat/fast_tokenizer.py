"""A tokenizer that encodes straight through its Rust library, with the same ids."""

from typing import Any


class FastTokenizer:
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


def fast_tokenizer(tokenizer: Any) -> Any:
    """The tokenizer itself where it has no Rust library behind it."""
    return (
        FastTokenizer(tokenizer) if getattr(tokenizer, "backend_tokenizer", None) is not None else tokenizer
    )
