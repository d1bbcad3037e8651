"""vLLM without tools, chats and learning on the episodes of benchmarks/long_steps.py.

python raw_side.py vllm       its `AsyncLLM` with its defaults, without seeds and log-probs
python raw_side.py engine     turnwise's engine: no torch.compile, a seed per turn, log-probs
"""

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from episodes import LongTerms, Script, read_terms, tell

Sample = Callable[[list[int], int], Awaitable[Any]]
"""Sample a turn after this prompt, under this number, which no other turn has."""


async def play(
    sample: Sample, terms: LongTerms, script: Script, prompts: list[list[int]], observed: list[int]
) -> None:
    numbers = itertools.count(random.getrandbits(40))

    async def episode(ids: list[int]) -> None:
        for turn in range(terms.num_turns):
            number = next(numbers)
            await sample(ids, number)
            ids = ids + script.turn(number, turn) + observed

    await asyncio.gather(*(episode(ids) for ids in prompts for _ in range(terms.group_size)))


def open_vllm(terms: LongTerms) -> Sample:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    from turnwise.engines.vllm.calls import STEP_TOKENS

    options: dict[str, Any] = {
        "gpu_memory_utilization": terms.memory_share,
        "max_num_batched_tokens": STEP_TOKENS,
    }
    if terms.device == "cpu":  # a rehearsal
        options = {"kv_cache_memory_bytes": 2**28, "enforce_eager": True}
    llm = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=terms.model,
            dtype=terms.dtype,
            skip_tokenizer_init=True,
            max_model_len=terms.model_len,
            max_num_seqs=terms.num_episodes,
            disable_log_stats=True,
            **options,
        )
    )
    wanted = SamplingParams(
        max_tokens=terms.sampled_tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )

    async def sample(ids: list[int], number: int) -> None:
        async for _ in llm.generate({"prompt_token_ids": ids}, wanted, str(number)):
            pass

    return sample


def open_engine(terms: LongTerms) -> Sample:
    from turnwise.engines.vllm import VllmEngine, VllmSettings
    from turnwise.types import Sampling

    settings = VllmSettings(
        dtype=terms.dtype,
        max_batch=terms.num_episodes,
        max_model_len=terms.model_len,
        memory_share=terms.memory_share,
        cache_bytes=2**28 if terms.device == "cpu" else None,
    )
    engine = VllmEngine(terms.model, settings)
    sampling = Sampling(max_tokens=terms.sampled_tokens)
    return lambda ids, number: engine.complete(ids, sampling, number)


async def main(kind: str) -> None:
    terms, started = read_terms(), time.perf_counter()
    from transformers import AutoTokenizer

    sample = {"vllm": open_vllm, "engine": open_engine}[kind](terms)
    script = Script(terms, AutoTokenizer.from_pretrained(terms.model))
    found = json.loads(terms.script_file.read_text())
    await sample(found["tasks"][-1]["ids"], 0)
    tell(start=time.perf_counter() - started)
    for number in range(len(terms.latencies)):
        # prompts of other tasks in every step, as on the other sides
        tasks = found["tasks"][number * terms.num_tasks : (number + 1) * terms.num_tasks]
        began = time.time()
        await play(sample, terms, script, [task["ids"] for task in tasks], found["observation_ids"])
        seconds = time.time() - began
        tell(step={"latency": 0, "began": began, "seconds": seconds, "rollout": seconds})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    os._exit(0)  # vLLM's processes end with this one
