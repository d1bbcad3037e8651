"""A memory plan in words: its sizes in one line, and what to change if it does not fit."""

from collections.abc import Iterator

from turnwise.config import Sizes
from turnwise.setup.memory.memory import ACTIVATIONS, KEYS_AND_VALUES, VLLM, MemoryPlan


def sizes_line(plan: MemoryPlan) -> str:
    """The sizes of a run and the memory planned for it, in one line."""
    planned = f"{_gib(plan.num_bytes)} GiB planned"
    if plan.memory is not None:
        planned = f"{_gib(plan.num_bytes)} of {_gib(plan.memory.total)} GiB planned"
    return f"{', '.join([*_words(plan.sizes, plan.num_layers), *_cache(plan), *_host(plan)])}; {planned}"


def step_sizes_line(sizes: Sizes) -> str:
    """The sizes of a run whose memory is not planned."""
    return ", ".join(_words(sizes))


def _words(sizes: Sizes, num_layers: int = 0) -> Iterator[str]:
    yield f"{sizes.tokens_per_microbatch:,} tokens per micro-batch"
    yield f"recomputation {_recomputed(sizes.gradient_checkpointing, num_layers)}"
    yield f"{sizes.num_parallel_episodes} episodes at a time"


def _recomputed(setting: bool | int, num_layers: int) -> str:
    """`num_layers` is 0 if it is not known."""
    if isinstance(setting, bool) or setting in (0, num_layers):
        return "on" if setting else "off"
    return f"of {setting} of {num_layers} layers" if num_layers else f"of {setting} layers"


def _cache(plan: MemoryPlan) -> Iterator[str]:
    parts = {part.name: part.num_bytes for part in plan.parts}
    if KEYS_AND_VALUES in parts:
        yield f"{_gib(parts[KEYS_AND_VALUES])} GiB of cache"
    elif VLLM in parts and plan.sizes.cache_gib is not None:
        yield f"{plan.sizes.cache_gib:.1f} GiB of cache"
    elif VLLM in parts:
        yield f"{plan.sizes.gpu_memory_utilization:g} of the GPU for vLLM"


def _host(plan: MemoryPlan) -> Iterator[str]:
    if plan.host_bytes:
        yield f"{_gib(plan.host_bytes)} GiB of the optimizer in host memory"


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f}"


def advice(plan: MemoryPlan) -> str:
    """What to change first if a plan does not fit, which depends on the largest part."""
    largest = max(plan.parts, key=lambda part: part.num_bytes).name
    activations = "lower update.tokens_per_microbatch, then policy.gradient_checkpointing = true"
    setting = plan.sizes.gradient_checkpointing
    if setting is True or setting == plan.num_layers:
        activations = "lower update.tokens_per_microbatch, then rollout.tokens_per_episode"
    is_share = plan.sizes.cache_gib is None
    vllm = "lower engine.vllm.gpu_memory_utilization, or " if is_share else ""
    by_part = {
        ACTIVATIONS: activations,
        KEYS_AND_VALUES: "lower engine.cache_tokens",
        VLLM: f"{vllm}engine.vllm.sleep = true",
        "optimizer": "policy.tuning = 'lora'",
        "gradients": "policy.tuning = 'lora'",
    }
    default = "model.dtype = 'bfloat16', then model.quantisation = 'nf4', then a smaller model"
    return f"largest is {largest}: {by_part.get(largest, default)}"
