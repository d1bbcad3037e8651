"""Takes a request, gives a ValueError with the figures if no engine could answer it."""

from collections.abc import Sequence

from turnwise.types import Sampling


def check_request(prompt_ids: Sequence[int], sampling: Sampling, context: int) -> None:
    length, new = len(prompt_ids), sampling.max_tokens
    if not length:
        raise ValueError("prompt_ids is empty")
    if new < 1:
        raise ValueError(f"max_tokens must be at least 1, not {new}")
    if sampling.temperature < 0 or not 0 < sampling.top_p <= 1:
        raise ValueError(f"temperature {sampling.temperature} and top_p {sampling.top_p} are no sampling")
    if length + new > context:
        raise ValueError(
            f"a prompt of {length} tokens and {new} new ones do not fit the context of {context}"
        )
