"""The transformers engine on a GPU has the log-probs of the model, before and after a publication."""

import asyncio
import random
from typing import Any

import pytest
import torch

from tests.engines.models import llama, qwen3, running, some_ids, worst_gap
from tests.gpu.device import DEVICE
from tests.training.policies import LORA, add_noise
from turnwise.training.policy.policy import Policy
from turnwise.types import Sampling

CLOSE = {torch.float32: 1e-3, torch.bfloat16: 0.6}
"""The largest difference from the plain forward pass on a CPU in fp32."""


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("make", [qwen3, llama])
async def test_turns_of_concurrent_episodes_have_the_logprobs_of_the_model(
    make: Any, dtype: torch.dtype
) -> None:
    async def turns(engine: Any, prompt: list[int], seed: int) -> float:
        source, worst = random.Random(seed), 0.0
        for _ in range(3):
            completion = await engine.complete(prompt, Sampling(max_tokens=source.randrange(3, 25)), seed)
            worst = max(worst, worst_gap(make(), prompt, completion))
            prompt = [*prompt, *completion.token_ids, *some_ids(source, 20)]
        return worst

    source = random.Random(3)
    tools = some_ids(source, 150)
    async with running(make(), device=DEVICE, dtype=dtype, prefill_chunk=64, max_batch=6) as engine:
        prompts = [tools + some_ids(source, 1 + 3 * number) for number in range(8)]
        gaps = await asyncio.gather(*(turns(engine, prompt, n) for n, prompt in enumerate(prompts)))
        assert max(gaps) <= CLOSE[dtype]
        assert engine.counts.num_reused > 8 * 140, "the common prompt is computed once"


@pytest.mark.parametrize("kind", ["weights", "adapter"])
async def test_after_a_publication_the_engine_has_the_logprobs_of_the_trainer(kind: str) -> None:
    prompt = some_ids(random.Random(4), 120)
    policy = Policy(qwen3(), LORA, device="cpu")
    add_noise(policy, 0.3)
    learned = qwen3()
    learned.load_state_dict(policy.weights(), strict=False)
    policy.model.to(DEVICE)  # as in a run
    published = policy.weights() if kind == "weights" else policy.adapter()
    async with running(qwen3(), device=DEVICE) as engine:
        before = await engine.complete(prompt, Sampling(max_tokens=12), 1)
        assert worst_gap(qwen3(), prompt, before) <= CLOSE[torch.float32]
        await engine.publish(published, 1)
        after = await engine.complete(prompt, Sampling(max_tokens=12), 1)
    assert after.policy_version == 1
    assert worst_gap(learned, prompt, after) <= CLOSE[torch.float32]
    assert worst_gap(qwen3(), prompt, after) > 0.1, "the published weights differ"
