"""The two functions that SkyRL imports; they run only with `trainer.remove_microbatch_padding = true`."""

from typing import Any


def pad_input(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("flash-attn is not installed: set trainer.remove_microbatch_padding = false")


unpad_input = pad_input
