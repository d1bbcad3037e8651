"""Compare the vLLM engine with raw vLLM, and measure publications, sleep and wake; print JSON lines.

    python benchmarks/vllm_engine.py [--model smollm2|tiny|FOLDER] [--adapters] [--eager] [--episodes 256]

The engine plays episodes of three turns with a long shared prefix and no tool latency. Raw vLLM samples the
same number of tokens from prompts of the same length: its `AsyncLLM` in a separate process with its defaults,
without seeds, log-probs or turns. The sides alternate, so that noise affects both. Then log-probs are
compared with the trainer's, before and after a publication. Several of these may run on one GPU: timed parts
hold a lock.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # vLLM's process, which imports this file too, uses the rest
    sys.path[:1] = [str(Path(__file__).resolve().parent / "race")]

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from alone import alone

from turnwise.config import ModelConfig
from turnwise.config.training import PolicyConfig
from turnwise.engines.vllm import VllmEngine, VllmSettings
from turnwise.engines.weight_transfer import write_adapter, write_model
from turnwise.setup.bench import load_model
from turnwise.training.policy.policy import Policy
from turnwise.types import Completion, Sampling

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GOAL = 0.85


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


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


async def play(engine: VllmEngine, shape: argparse.Namespace, vocab_size: int, number: int) -> float:
    """Seconds to play all episodes concurrently."""
    prefix = some_ids(random.Random(-1 - number), shape.prefix, vocab_size)
    sources = [random.Random(number * 10_000 + one_number) for one_number in range(shape.episodes)]
    beginnings = [some_ids(source, 20, vocab_size) for source in sources]
    observed = [some_ids(source, shape.turns * shape.observation, vocab_size) for source in sources]

    async def episode(seed: int, beginning: list[int], observed: list[int]) -> None:
        ids = prefix + beginning
        for turn in range(shape.turns):
            completion = await engine.complete(ids, Sampling(max_tokens=shape.tokens), seed * 10 + turn)
            ids += completion.token_ids
            ids += observed[turn * shape.observation : (turn + 1) * shape.observation]

    started = time.perf_counter()
    await asyncio.gather(*map(episode, range(shape.episodes), beginnings, observed))
    return time.perf_counter() - started


class Raw:
    """Raw vLLM in a separate process, which plays a round on request."""

    def __init__(self, model: str, adapter: str, arguments: argparse.Namespace) -> None:
        names = ("dtype", "episodes", "turns", "tokens", "prefix", "observation", "cache_gib")
        options = [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in names]
        options += ["--eager"] if arguments.eager else []
        command = [sys.executable, __file__, "--raw", adapter, "--model", model, *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT)

    def seconds(self) -> float:
        """Seconds of one round; the first waits until vLLM has started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("play", file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(RAW_SECONDS):
                return float(line.removeprefix(RAW_SECONDS))
        raise SystemExit(f"raw vLLM ended with status {self._process.wait()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


RAW_SECONDS = "raw seconds: "
ENVIRONMENT = {**os.environ, "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
"""Not a fork, which would inherit torch's state."""
if DEVICE == "cuda":
    ENVIRONMENT["VLLM_USE_V2_MODEL_RUNNER"] = "1"  # the newer and faster of its runners


async def play_raw(arguments: argparse.Namespace) -> None:
    """The process of `Raw`: play a round for every line of stdin."""
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.lora.request import LoRARequest
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    lora: dict[str, Any] = {"enable_lora": True, "max_lora_rank": 16} if arguments.raw else {}
    llm = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=arguments.model,
            dtype=arguments.dtype,
            skip_tokenizer_init=True,
            max_model_len=4096,
            max_num_seqs=arguments.episodes,
            kv_cache_memory_bytes=int(arguments.cache_gib * 2**30),
            gpu_memory_utilization=0.01,  # it only checks that this much is free
            enforce_eager=arguments.eager,
            disable_log_stats=True,
            **lora,
        )
    )
    adapter = LoRARequest("raw", 1, arguments.raw) if arguments.raw else None
    wanted = SamplingParams(
        max_tokens=arguments.tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    vocab_size = llm.model_config.get_vocab_size()

    async def request(name: str, ids: list[int]) -> None:
        async for _ in llm.generate({"prompt_token_ids": ids}, wanted, name, lora_request=adapter):
            pass

    for number, _ in enumerate(iter(sys.stdin.readline, "")):
        # a new prefix in every round, as the engine has new weights in every round
        prefix = some_ids(random.Random(-1 - number), arguments.prefix, vocab_size)
        rounds = []
        for turn in range(arguments.turns):
            length = 20 + turn * (arguments.tokens + arguments.observation)
            sources = [
                random.Random(number * 10_000 + one_number) for one_number in range(arguments.episodes)
            ]
            rounds.append([prefix + some_ids(source, length, vocab_size) for source in sources])
        started = time.perf_counter()
        for turn, prompts in enumerate(rounds):  # all episodes at once, as in the engine
            names = (f"{number}-{turn}-{one_number}" for one_number in range(len(prompts)))
            await asyncio.gather(*map(request, names, prompts))
        print(f"{RAW_SECONDS}{time.perf_counter() - started}", flush=True)
    llm.shutdown()


def gaps(policy: Policy, prompt: list[int], completions: list[Completion]) -> dict[str, float]:
    """Differences between recorded log-probs and those of the trainer's model."""
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


async def measure_rollouts(
    engine: VllmEngine, raw: Raw, arguments: argparse.Namespace, vocab_size: int
) -> None:
    sampled = arguments.episodes * arguments.turns * arguments.tokens
    ratios = []
    for number in range(1 + arguments.rounds):
        with alone():
            raw_seconds = raw.seconds()
            seconds = await play(engine, arguments, vocab_size, number)
        what = "measured" if number else "warm-up"
        speeds = {"tokens_per_second": sampled / seconds, "raw_tokens_per_second": sampled / raw_seconds}
        tell(what=what, seconds=seconds, **speeds, ratio=raw_seconds / seconds)
        ratios += [raw_seconds / seconds] if number else []
    ratio = statistics.median(ratios)
    verdict = "met" if ratio >= GOAL else "NOT MET"
    tell(what="rollouts", ratio=ratio, goal=f">= {GOAL} of raw vLLM's tokens a second: {verdict}")


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
        adapter = Path(folder, "adapter") if arguments.adapters else None
        if adapter is not None:
            write_adapter(policy.adapter(), adapter, settings.dtype)
        raw = Raw(folder, str(adapter or ""), arguments)
        engine = VllmEngine(folder, settings)
        started = time.perf_counter()
        await engine.publish(policy.adapter() if arguments.adapters else policy.weights(), 0)
        tell(what="start", seconds=time.perf_counter() - started, **vars(arguments))
        await measure_rollouts(engine, raw, arguments, vocab_size)
        raw.close()
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
    parser.add_argument(
        "--rounds", type=int, default=3, help="measured rounds; their median is compared with the goal"
    )
    parser.add_argument("--raw", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments) if arguments.raw is None else play_raw(arguments))


if __name__ == "__main__":
    main()
