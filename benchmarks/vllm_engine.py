"""Measures the vLLM engine beside raw vLLM, and what publications, sleep and wake cost; prints JSON lines.

    python benchmarks/vllm_engine.py [--model smollm2|tiny|FOLDER] [--adapters] [--eager] [--episodes 256]

Episodes of three turns with a long shared prefix, played through the engine with no tool latency, beside raw
vLLM (the same process, no seeds, no log-probs, no turns) sampling as many tokens from prompts as long. Then
log-probs beside the trainer's own, before and after a publication. Several of these may run side by side on
one GPU: what is timed is timed under a lock.
"""

import sys

if __name__ == "__main__":  # vLLM's own process, which reads this file too, gets what is left
    sys.path.pop(0)  # this folder: its mcp.py must not stand in for the SDK's `mcp`

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from turnwise.config import ModelConfig
from turnwise.config.learning import PolicyConfig
from turnwise.engines.handover import write_model
from turnwise.engines.vllm import VllmEngine, VllmSettings
from turnwise.training.policy import Policy
from turnwise.types import Completion, Sampling
from turnwise.workbench import load_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """No other of these times anything meanwhile."""
    with Path(tempfile.gettempdir(), "turnwise-benchmark.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load(arguments: argparse.Namespace) -> Any:
    if arguments.model != "tiny":
        return load_model(ModelConfig(path=arguments.model, dtype=arguments.dtype))
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes: dict[str, Any] = {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "initializer_range": 0.1,
    }
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True)).to(
        getattr(torch, arguments.dtype)
    )


def some_ids(source: random.Random, count: int, vocab_size: int) -> list[int]:
    return [source.randrange(vocab_size) for _ in range(count)]


async def play(engine: VllmEngine, shape: argparse.Namespace, vocab_size: int) -> float:
    """Seconds for all episodes, side by side."""
    prefix = some_ids(random.Random(0), shape.prefix, vocab_size)

    async def episode(number: int) -> None:
        source = random.Random(number)
        ids = prefix + some_ids(source, 20, vocab_size)
        for turn in range(shape.turns):
            completion = await engine.complete(ids, Sampling(max_tokens=shape.tokens), number * 10 + turn)
            ids += [*completion.token_ids, *some_ids(source, shape.observation, vocab_size)]

    started = time.perf_counter()
    await asyncio.gather(*(episode(number) for number in range(shape.episodes)))
    return time.perf_counter() - started


async def play_raw(engine: VllmEngine, shape: argparse.Namespace, vocab_size: int) -> float:
    """As many tokens from vLLM itself, one request an episode and turn, all handed over at once."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    standing = engine._standing
    assert standing is not None
    wanted = SamplingParams(
        max_tokens=shape.tokens, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
    )
    prefix = some_ids(random.Random(1), shape.prefix, vocab_size)

    async def request(number: int, turn: int) -> None:
        length = 20 + turn * (shape.tokens + shape.observation)
        ids = prefix + some_ids(random.Random(number), length, vocab_size)
        async for _ in standing.llm.generate(
            {"prompt_token_ids": ids}, wanted, f"raw-{turn}-{number}", lora_request=standing.kept.adapter
        ):
            pass

    started = time.perf_counter()
    for turn in range(shape.turns):  # as many at once as there are episodes, as the engine has
        await asyncio.gather(*(request(number, turn) for number in range(shape.episodes)))
    return time.perf_counter() - started


def gaps(policy: Policy, prompt: list[int], completions: list[Completion]) -> dict[str, float]:
    """How far recorded log-probs are from those of the trainer's model."""
    found: list[float] = []
    for completion in completions:
        ids = torch.tensor([[*prompt, *completion.token_ids]], device=policy.device)
        with torch.no_grad():
            logits = policy.model(ids).logits[0, len(prompt) - 1 : -1].float()
        plain = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
        found += [abs(a - b) for a, b in zip(plain, completion.logprobs, strict=True)]
    return {"mean": sum(found) / len(found), "max": max(found)}


async def measure_publications(engine: VllmEngine, policy: Policy, arguments: argparse.Namespace) -> None:
    vocab_size = policy.model.config.vocab_size
    prompt = some_ids(random.Random(3), 200, vocab_size)
    for version in (1, 2, 3):
        with torch.no_grad():
            for name, tensor in policy.trainable.items():
                if name.endswith("lora_B"):
                    tensor.normal_(std=0.02)
        with alone():
            started = time.perf_counter()
            await engine.publish(policy.adapter() if arguments.adapters else policy.weights(), version)
            seconds = time.perf_counter() - started
        wanted = Sampling(max_tokens=50)
        completions = await asyncio.gather(*(engine.complete(prompt, wanted, seed) for seed in range(8)))
        tell(what="publication", version=version, seconds=seconds, gap=gaps(policy, prompt, completions))


async def measure(arguments: argparse.Namespace) -> None:
    model = load(arguments)
    vocab_size = model.config.vocab_size
    settings = VllmSettings(
        dtype=arguments.dtype,
        max_batch=arguments.episodes,
        cache_bytes=int(arguments.cache_gib * 2**30),
        lora_rank=16 if arguments.adapters else 0,
        is_eager=arguments.eager,
        can_sleep=DEVICE == "cuda",
    )
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, Path(folder))
        policy = Policy(model, PolicyConfig(), device=DEVICE)
        engine = VllmEngine(folder, settings)
        started = time.perf_counter()
        await engine.publish(policy.adapter() if arguments.adapters else policy.weights(), 0)
        tell(what="start", seconds=time.perf_counter() - started, **vars(arguments))
        sampled = arguments.episodes * arguments.turns * arguments.tokens
        for attempt in ("warm-up", "measured"):
            with alone():
                seconds, raw = [await each(engine, arguments, vocab_size) for each in (play, play_raw)]
            tell(
                what=attempt,
                seconds=seconds,
                tokens_per_second=sampled / seconds,
                raw_tokens_per_second=sampled / raw,
                ratio=raw / seconds,
            )
        await measure_publications(engine, policy, arguments)
        tell(what="memory", **await engine.memory())
        if DEVICE == "cuda":
            with alone():
                free = torch.cuda.mem_get_info()[0]
                started = time.perf_counter()
                await engine.sleep()
                slept = time.perf_counter() - started
                given_back = (torch.cuda.mem_get_info()[0] - free) / 2**30
                started = time.perf_counter()
                await engine.publish(policy.adapter() if arguments.adapters else policy.weights(), 9)
                woken = time.perf_counter() - started
            tell(what="sleep", sleep_seconds=slept, wake_and_publish_seconds=woken, given_back_gib=given_back)
            prompt = some_ids(random.Random(3), 200, vocab_size)
            completion = await engine.complete(prompt, Sampling(max_tokens=50), 0)
            tell(what="after sleep", gap=gaps(policy, prompt, [completion]))
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dtype", default="bfloat16" if DEVICE == "cuda" else "float32")
    parser.add_argument("--adapters", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prefix", type=int, default=2000)
    parser.add_argument("--observation", type=int, default=100)
    parser.add_argument("--cache-gib", type=float, default=8.0)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
