"""The one import of the `renderers` library."""

from collections.abc import Mapping
from typing import Any

# The library ships no types.
from renderers import DefaultRenderer, DefaultRendererConfig, create_renderer  # type: ignore[import-untyped]
from renderers.base import (  # type: ignore[import-untyped]
    MODEL_RENDERER_MAP,
    RENDERER_REGISTRY,
    ToolCallParseStatus,
    load_tokenizer,
)
from renderers.configs import _config_class_for  # type: ignore[import-untyped]
from renderers.parsers import TOOL_PARSERS  # type: ignore[import-untyped]

from turnwise.models.chat.fast_tokenizer import fast_tokenizer

_FIRST_LINE_CHARS = 200
"""Limit for the first line of a call in DeepSeek's format: `function`, a separator and the tool's name."""

__all__ = ["TOOL_PARSERS", "ToolCallParseStatus", "load_tokenizer"]


def renderer_for(model: str) -> str | None:
    """The name of the renderer for this exact hub name; None if there is none."""
    name = MODEL_RENDERER_MAP.get(model)
    return None if name is None else str(name)


def make_renderer(tokenizer: Any, name: str, *, enable_thinking: bool) -> Any:
    """Create a hand-written renderer; `enable_thinking` is passed if it has that option."""
    try:
        config_class: Any = _config_class_for(name)
    except (KeyError, ValueError) as problem:
        known = ", ".join(sorted(RENDERER_REGISTRY))
        raise ValueError(f"renderer: {name!r} is not one of {known or 'the library'}") from problem
    has_switch = "enable_thinking" in config_class.template_field_names()
    switch = {"enable_thinking": enable_thinking} if has_switch else {}
    try:
        return create_renderer(fast_tokenizer(tokenizer), config_class(**switch))
    except AssertionError as problem:  # raised by the library if a token is missing
        raise ValueError(f"renderer {name!r}: {problem}") from problem


def default_renderer(tokenizer: Any, options: Mapping[str, Any], *, tool_parser: str | None = None) -> Any:
    """Create the renderer that applies the tokenizer's own template with these options."""
    renderer = DefaultRenderer(tokenizer, DefaultRendererConfig(tool_parser=tool_parser, **options))
    if tool_parser == "deepseek-v3":
        renderer._tool_parser = _ShortFirstLines(renderer._tool_parser, tokenizer)
    return renderer


class _ShortFirstLines:
    """Refuses calls with a long first line, on which the library's regex for the name takes cubic time."""

    def __init__(self, parser: Any, tokenizer: Any) -> None:
        self._parser, self._tokenizer = parser, tokenizer
        self._opening = tokenizer.convert_tokens_to_ids("<｜tool▁call▁begin｜>")

    def extract(self, ids: list[int]) -> Any:
        for place, token in enumerate(ids):
            if token == self._opening:
                # 4: a character takes at most four tokens, its UTF-8 bytes
                block = self._tokenizer.decode(ids[place + 1 : place + 1 + 4 * _FIRST_LINE_CHARS])
                if len(block.partition("\n")[0]) > _FIRST_LINE_CHARS:
                    raise ValueError(f"a call's first line has more than {_FIRST_LINE_CHARS} characters")
        return self._parser.extract(ids)
