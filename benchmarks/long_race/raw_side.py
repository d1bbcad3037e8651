"""Raw vLLM on the episodes of benchmarks/long_steps.py: `AsyncLLM` without seeds and log-probs."""

import asyncio
import itertools
import json
import random
import time
from typing import Any

from episodes import LongTerms, Script, read_terms, tell


async def play(
    llm: Any, terms: LongTerms, script: Script, prompts: list[list[int]], observed: list[int]
) -> None:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    numbers = itertools.count(random.getrandbits(40))
    wanted = SamplingParams(
        max_tokens=terms.sampled_tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )

    async def episode(ids: list[int]) -> None:
        for turn in range(terms.num_turns):
            number = next(numbers)
            async for _ in llm.generate({"prompt_token_ids": ids}, wanted, str(number)):
                pass
            ids = ids + script.turn(number, turn) + observed

    await asyncio.gather(*(episode(ids) for ids in prompts for _ in range(terms.group_size)))


async def main() -> None:
    terms = read_terms()
    from transformers import AutoTokenizer
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    from turnwise.engines.vllm.calls import STEP_TOKENS

    started = time.perf_counter()
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
    tell(start=time.perf_counter() - started)
    script = Script(terms, AutoTokenizer.from_pretrained(terms.model))
    found = json.loads(terms.script_file.read_text())
    for number, latency in enumerate(terms.latencies):
        if latency:  # no tools here
            continue
        # prompts of other tasks in every step, as on the other sides
        tasks = found["tasks"][number * terms.num_tasks : (number + 1) * terms.num_tasks]
        began = time.time()
        await play(llm, terms, script, [task["ids"] for task in tasks], found["observation_ids"])
        seconds = time.time() - began
        tell(step={"latency": 0, "began": began, "seconds": seconds, "rollout": seconds})
    llm.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
