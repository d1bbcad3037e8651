"""Refuse requests that no engine could answer, with a ValueError that names the field and the value."""

from collections.abc import Sequence

from turnwise.config.sampling import MIN_TOP_P, check_temperature
from turnwise.types import Sampling


def check_request(prompt_ids: Sequence[int], sampling: Sampling, context: int) -> None:
    length, new = len(prompt_ids), sampling.max_tokens
    if not length:
        raise ValueError("prompt_ids is empty")
    check_sampling(sampling)
    if length + new > context:
        raise ValueError(
            f"a prompt of {length} tokens and {new} new ones do not fit the context of {context}"
        )


def check_sampling(sampling: Sampling) -> None:
    if sampling.max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {sampling.max_tokens}")
    check_temperature(sampling.temperature)
    if not MIN_TOP_P <= sampling.top_p <= 1:
        raise ValueError(f"top_p must be from {MIN_TOP_P:g} to 1, not {sampling.top_p!r}")
