"""Every call into vLLM; differences between its versions 0.22 and 0.32 are handled here."""

import asyncio
import math
import os
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import torch

from turnwise.engines.vllm.receiver import Receiver
from turnwise.engines.weight_transfer import Block
from turnwise.protocols import EngineDown
from turnwise.types import Completion, Finish, Sampling

LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""That vLLM has kernels for; a smaller adapter is padded with zeros."""
ADAPTER_SLOTS = 2
"""The adapter in use, and the one before it, for as long as completions begun under it last."""
MIN_STEP_TOKENS = 4_096
"""Of prompts and completions in one step on a CPU."""
_SCHEDULERS = "turnwise.engines.vllm.output_scheduler"
GATHERING = f"{_SCHEDULERS}.GatheringScheduler"
GATHERING_ASYNC = f"{_SCHEDULERS}.GatheringAsyncScheduler"
"""By name: their module is for vLLM's own process."""
LOOK_SECONDS = 0.2
"""Between two looks whether the process still lives that a call waits for."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """How vLLM is started."""

    dtype: str = "float32"
    max_batch: int = 64
    """Requests sampled at once; more wait."""
    max_model_len: int = 4_096
    """Of prompt and completion together."""
    memory_share: float = 0.3
    """Of the GPU's memory (a CPU's, without one), for weights and cache together."""
    cache_bytes: int | None = None
    """Of keys and values, in the place of what the share leaves for them."""
    lora_rank: int = 0
    """Above 0, what is published are adapters of at most this rank; 0: whole weights."""
    is_eager: bool = False
    """No compilation and no CUDA graphs."""
    can_sleep: bool = False
    """Whether `sleep` gives memory back; it takes another allocator."""

    def __post_init__(self) -> None:
        if self.lora_rank > LORA_RANKS[-1]:
            raise ValueError(f"lora_rank must be at most {LORA_RANKS[-1]}, not {self.lora_rank}")


@dataclass(frozen=True, slots=True)
class Kept:
    """What was last published, to be loaded again should the process die."""

    number: int
    """Of the publication: an adapter's id to vLLM, where there is one."""
    version: int
    block: Block | None = None
    adapter: Any = None
    """A LoRARequest, or none."""


def import_vllm() -> tuple[Any, Any]:
    """`AsyncEngineArgs` and `AsyncLLM`, imported with the environment that vLLM reads once."""
    # The engine's process must not be forked: this one may hold CUDA and runs threads.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # it warns of much that is as it should be
    if torch.cuda.is_available():
        # The older runner draws row by row where requests have seeds of their own.
        os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncEngineArgs, AsyncLLM


def start(model: str, settings: VllmSettings) -> Any:
    """An AsyncLLM, once its process is ready."""
    engine_args, async_llm = import_vllm()
    options: dict[str, Any] = {"async_scheduling": torch.cuda.is_available()}
    if settings.lora_rank:
        rank = next(rank for rank in LORA_RANKS if rank >= settings.lora_rank)
        options |= {"enable_lora": True, "max_loras": ADAPTER_SLOTS, "max_lora_rank": rank}
    if not torch.cuda.is_available():
        # On a CPU a prompt read in parts, of a request with a seed, ends the process: each is read whole.
        budget = max(settings.max_model_len, MIN_STEP_TOKENS)
        options |= {"enable_chunked_prefill": False, "max_num_batched_tokens": budget}
    arguments = engine_args(
        model=model,
        dtype=settings.dtype,  # type: ignore[arg-type, unused-ignore]
        skip_tokenizer_init=True,
        generation_config="vllm",  # no sampling defaults of the model's own
        logprobs_mode="processed_logprobs",  # after temperature, as the trainer computes them
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_batch,
        # with a cache of a given size it only asks whether so much is free
        gpu_memory_utilization=settings.memory_share if settings.cache_bytes is None else 0.01,
        kv_cache_memory_bytes=settings.cache_bytes,
        enable_prefix_caching=True,
        enforce_eager=settings.is_eager,
        enable_sleep_mode=settings.can_sleep,
        worker_extension_cls=f"{Receiver.__module__}.{Receiver.__name__}",
        scheduler_cls=GATHERING_ASYNC if torch.cuda.is_available() else GATHERING,  # type: ignore[arg-type, unused-ignore]
        disable_log_stats=True,
        **options,
    )
    # Ctrl-C in a terminal goes to every process there, and is ours to answer: the processes started from this
    # thread inherit that it does not reach them. Once multiprocessing's tracker runs, that is: starting it
    # lets the signal through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return async_llm.from_engine_args(arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def end(llm: Any) -> None:
    """Its process, too, dead or alive."""
    if llm.output_handler is not None:
        llm.output_handler.cancel()  # or it would take the end for a death
    await asyncio.to_thread(llm.shutdown)


def parameters_of(sampling: Sampling, seed: int) -> Any:
    """One answer, whole, with the log-prob of each of its tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=seed % 2**63,
        stop_token_ids=sorted(sampling.stop_ids),
        ignore_eos=True,  # stop_ids alone end a turn
        logprobs=0,  # of the sampled token and no others
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def completion_of(output: Any, version: int) -> Completion:
    """What a finished request came to; EngineDown where that is no answer."""
    token_ids, logprobs = tuple(output.token_ids), tuple(output.logprobs.logprobs)
    if output.finish_reason not in ("stop", "length"):
        raise EngineDown(f"vLLM ended a request with {output.finish_reason!r}")
    if not all(map(math.isfinite, logprobs)):
        raise EngineDown("the model's logits are not numbers")
    assert tuple(output.logprobs.token_ids) == token_ids, "one log-prob a token, of that token"
    return Completion(token_ids, logprobs, Finish(output.finish_reason), version)


async def load(llm: Any, kept: Kept) -> None:
    """Put these weights to use; EngineDeadError where its process died."""
    if kept.block is not None:
        taking = llm.collective_rpc("take_weights", args=(kept.block.path, kept.block.table))
        await unless_dead(llm, taking)
        await unless_dead(llm, llm.reset_prefix_cache())
    if kept.adapter is not None:
        await unless_dead(llm, llm.add_lora(kept.adapter))


async def unless_dead(llm: Any, call: Coroutine[Any, Any, Any]) -> Any:
    """What the call gives, or EngineDeadError: vLLM itself never ends one that its process died in."""
    from vllm.v1.engine.exceptions import EngineDeadError

    calling = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait([calling], timeout=LOOK_SECONDS))[0]:
            if llm.errored:
                raise EngineDeadError
        return calling.result()
    finally:
        calling.cancel()
