"""Every call into vLLM; differences between its versions 0.22 and 0.32 are handled here."""

import asyncio
import math
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import torch

from turnwise.engines.vllm.receiver import Receiver
from turnwise.engines.vllm_helper import begin_import, fork_from_helper, interrupts_blocked, set_environment
from turnwise.engines.weight_transfer import Block
from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import EngineDown

LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks vLLM has kernels for; a smaller adapter is padded with zeros."""
ADAPTER_SLOTS = 2
"""One for the adapter in use, one for the previous adapter until its requests are finished."""
STEP_TOKENS = 8_192
"""The token budget of one step on a GPU, prompts and completions together. vLLM's default for this interface
is 2,048: long prompts take many steps, and the turns being sampled wait in each of them."""
MIN_STEP_TOKENS = 4_096
"""The smallest token budget of one step on a CPU."""
GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
"""CUDA graphs of the steps that sample, without torch.compile, which takes longer than the rest of the start.
Steps that read prompts are long enough to hide their launches."""
_SCHEDULERS = "turnwise.engines.vllm.output_scheduler"
SCHEDULER = f"{_SCHEDULERS}.WholeTurnScheduler"
ASYNC_SCHEDULER = f"{_SCHEDULERS}.WholeTurnAsyncScheduler"
"""Given by name: only vLLM's process imports their module."""
LOOK_SECONDS = 0.2
"""Interval at which a waiting call checks that vLLM's process is alive."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """The settings vLLM is started with."""

    dtype: str = "float32"
    max_batch: int = 64
    """Requests sampled at once; more wait."""
    max_model_len: int = 4_096
    """Tokens of a prompt and its completion together."""
    memory_share: float = 0.3
    """Share of the GPU's memory (without a GPU, the machine's) for weights and cache together."""
    cache_bytes: int | None = None
    """Size of the KV cache; None: what `memory_share` leaves for it."""
    lora_rank: int = 0
    """The highest rank of published adapters; 0: whole weights are published."""
    is_eager: bool = False
    """Disable CUDA graphs."""
    can_sleep: bool = False
    """Whether `sleep` releases memory; this needs another allocator."""

    def __post_init__(self) -> None:
        if self.lora_rank > LORA_RANKS[-1]:
            raise ValueError(f"lora_rank must be at most {LORA_RANKS[-1]}, not {self.lora_rank}")


@dataclass(frozen=True, slots=True)
class Published:
    """The weights published last, loaded again if vLLM's process is restarted."""

    number: int
    """The publication's number; for an adapter also its id in vLLM."""
    version: int
    block: Block | None = None
    adapter: Any = None
    """A LoRARequest, or None."""


def import_vllm() -> tuple[Any, Any]:
    """Import `AsyncEngineArgs` and `AsyncLLM`, with the environment that vLLM reads on import."""
    set_environment(has_gpu=torch.cuda.is_available())
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncEngineArgs, AsyncLLM


def start(model: str, settings: VllmSettings) -> Any:
    """Start vLLM and return its AsyncLLM when its process is ready."""
    engine_args, async_llm = import_vllm()
    options: dict[str, Any] = {"async_scheduling": torch.cuda.is_available()}
    if settings.lora_rank:
        rank = next(rank for rank in LORA_RANKS if rank >= settings.lora_rank)
        options |= {"enable_lora": True, "max_loras": ADAPTER_SLOTS, "max_lora_rank": rank}
    if torch.cuda.is_available():
        options |= {"max_num_batched_tokens": max(STEP_TOKENS, settings.max_batch), **_without_warmup()}
        if not settings.is_eager:
            options |= {"compilation_config": GRAPHS | {"max_cudagraph_capture_size": settings.max_batch}}
    else:
        # No chunked prefill on a CPU: for a request with a seed, it ends the process.
        budget = max(settings.max_model_len, MIN_STEP_TOKENS)
        options |= {"enable_chunked_prefill": False, "max_num_batched_tokens": budget}
    arguments = engine_args(
        model=model,
        dtype=settings.dtype,  # type: ignore[arg-type, unused-ignore]
        skip_tokenizer_init=True,
        generation_config="vllm",  # ignore the model's own sampling defaults
        logprobs_mode="processed_logprobs",  # after temperature, as the trainer computes them
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_batch,
        # with a given cache size, vLLM only checks that this share is free
        gpu_memory_utilization=settings.memory_share if settings.cache_bytes is None else 0.01,
        kv_cache_memory_bytes=settings.cache_bytes,
        enable_prefix_caching=True,
        enforce_eager=settings.is_eager,
        enable_sleep_mode=settings.can_sleep,
        worker_extension_cls=f"{Receiver.__module__}.{Receiver.__name__}",
        scheduler_cls=ASYNC_SCHEDULER if torch.cuda.is_available() else SCHEDULER,  # type: ignore[arg-type, unused-ignore]
        disable_log_stats=True,
        **options,
    )
    if torch.cuda.is_available():
        begin_import()
        fork_from_helper()
    with interrupts_blocked():
        return async_llm.from_engine_args(arguments)


def _without_warmup() -> dict[str, Any]:
    """The option against a warm-up of newer versions, which compiles kernels for more than a minute.

    Without it, a kernel is compiled when it is first used.
    """
    from vllm import config

    known = getattr(getattr(config, "KernelConfig", None), "__dataclass_fields__", {})
    return {"kernel_config": {"enable_jit_warmup": False}} if "enable_jit_warmup" in known else {}


def memory_hint(error: Exception, settings: VllmSettings) -> str:
    """The recipe key to lower if a start may have failed for want of memory; else empty.

    An error in vLLM's process is printed there, and arrives here without its reason.
    """
    words = str(error).lower()
    if "memory" not in words and "initialization failed" not in words:
        return ""
    key, value = "cache_gib", settings.cache_bytes and round(settings.cache_bytes / 2**30, 2)
    if settings.cache_bytes is None:
        key, value = "gpu_memory_utilization", settings.memory_share
    return f"; if memory ran out, lower engine.vllm.{key}, which is {value}"


async def end(llm: Any) -> None:
    """Shut vLLM down, and its process, dead or alive."""
    if llm.output_handler is not None:
        llm.output_handler.cancel()  # or it would report the shutdown as a crash
    await asyncio.to_thread(llm.shutdown)


def parameters_of(sampling: Sampling, seed: int) -> Any:
    """vLLM's parameters for one whole completion with the log-prob of each token."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=seed % 2**63,
        stop_token_ids=sorted(sampling.stop_ids),
        ignore_eos=True,  # only stop_ids end a turn
        logprobs=0,  # only for the sampled token
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def completion_of(output: Any, version: int) -> Completion:
    """Convert a finished request; EngineDown if it was aborted or a log-prob is not finite."""
    token_ids, logprobs = tuple(output.token_ids), tuple(output.logprobs.logprobs)
    if output.finish_reason not in ("stop", "length"):
        raise EngineDown(f"vLLM ended a request with {output.finish_reason!r}")
    if not all(map(math.isfinite, logprobs)):
        raise EngineDown("the model's logits are not numbers")
    assert tuple(output.logprobs.token_ids) == token_ids, "one log-prob a token, of that token"
    return Completion(token_ids, logprobs, Finish(output.finish_reason), version)


async def load(llm: Any, published: Published) -> None:
    """Load published weights into vLLM; EngineDeadError if its process died."""
    if published.block is not None:
        async with published.block.offered() as path:
            taking = llm.collective_rpc("take_weights", args=(path, published.block.table))
            await unless_dead(llm, taking)
        await unless_dead(llm, llm.reset_prefix_cache())
    if published.adapter is not None:
        await unless_dead(llm, llm.add_lora(published.adapter))


async def unless_dead(llm: Any, call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call; EngineDeadError if vLLM's process dies, in which case vLLM itself would never return."""
    from vllm.v1.engine.exceptions import EngineDeadError

    calling = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait([calling], timeout=LOOK_SECONDS))[0]:
            if llm.errored:
                raise EngineDeadError
        return calling.result()
    finally:
        calling.cancel()
