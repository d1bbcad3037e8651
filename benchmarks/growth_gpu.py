"""Measure on a GPU how rollouts, updates and memory grow with tokens, episodes and turns, and draw it.

    python benchmarks/growth_gpu.py --plot docs/images/growth_gpu.svg        # an H200, about 4 minutes
    python benchmarks/growth_gpu.py --device cpu                             # a rehearsal with a tiny model

vLLM and the trainer start once and take every point: the episodes of a step are played through the engine,
with random tokens in place of tool results, and a LoRA update learns from as many random tokens. Tools and
servers are left out; benchmarks/growth.py measures them. One number grows, the others stay: 16 episodes with
a prompt of 2,500 tokens and 3 turns of 100 sampled and 300 observed tokens, at Qwen3-0.6B's sizes. The first
point has two warm-up rounds, and every point two measured ones.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import asyncio
import itertools
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from benchmarks.growth import Point, drawing, report
from benchmarks.long import LORA_RANK, Shape, make_model, make_samples
from benchmarks.long_steps import write_model
from turnwise.types import Sampling

BASE = Shape(
    num_tasks=2, group_size=8, prompt_tokens=2500, num_turns=3, sampled_tokens=100, observed_tokens=300
)
AXES: dict[str, tuple[str, Sequence[int]]] = {
    "tokens": ("observed_tokens", (300, 2000, 4000, 8000)),
    "episodes": ("num_tasks", (2, 4, 8, 16)),
    "turns": ("num_turns", (3, 6, 12, 24)),
}
"""What grows, the field of the shape, and its values."""
TINY_BASE = Shape(2, 2, 50, 3, 5, 10)
TINY_AXES = {axis: (field, values[:3]) for axis, (field, values) in AXES.items()} | {
    "tokens": ("observed_tokens", (10, 20, 40))
}
MICROBATCH = 32_768
MEMORY_SHARE = 0.45
MEASURED = 2
NUM_WARM = 2
"""Rounds before the first point: publications write to two blocks in turn, and each must be made."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What plays and what learns."""

    engine: Any
    trainer: Any
    vocab_size: int


def points_of(*, is_gpu: bool) -> list[tuple[str, Shape]]:
    base, axes = (BASE, AXES) if is_gpu else (TINY_BASE, TINY_AXES)
    return [
        (axis, replace(base, **{field: value})) for axis, (field, values) in axes.items() for value in values
    ]


def shown_value(axis: str, shape: Shape) -> float:
    """The number on the axis: a user's, not the field's."""
    tokens = shape.prompt_tokens + shape.tail
    return {"tokens": tokens, "episodes": shape.num_rows, "turns": shape.num_turns}[axis]


async def play(sides: Sides, shape: Shape, round_number: int) -> None:
    """Play the episodes of a step; prompts differ from those of other rounds."""
    source = random.Random(repr((shape, round_number)))
    sampling = Sampling(max_tokens=shape.sampled_tokens)

    def some(count: int) -> list[int]:
        return source.choices(range(3, sides.vocab_size), k=count)

    async def episode(ids: list[int]) -> None:
        for _ in range(shape.num_turns):
            sampled = await sides.engine.complete(ids, sampling, source.getrandbits(40))
            assert len(sampled.token_ids) == shape.sampled_tokens, "no token ends a turn"
            ids = [*ids, *sampled.token_ids, *some(shape.observed_tokens)]

    prompts = [some(shape.prompt_tokens) for _ in range(shape.num_tasks)]
    await asyncio.gather(*(episode(prompt) for prompt in prompts for _ in range(shape.group_size)))


async def measure(sides: Sides, axis: str, shape: Shape, *, num_warm: int) -> Point:
    samples = make_samples(shape, sides.vocab_size)
    is_gpu = torch.cuda.is_available()
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    rounds = []
    for number in range(num_warm + MEASURED):
        times = [time.perf_counter()]
        await play(sides, shape, number)
        times.append(time.perf_counter())
        result = await asyncio.to_thread(sides.trainer.update, samples, step=number)
        assert not result.skipped, result.skipped
        times.append(time.perf_counter())
        await sides.engine.publish(sides.trainer.policy.weights(), number + 1)
        times.append(time.perf_counter())
        rounds.append([after - before for before, after in itertools.pairwise(times)])
    counted = rounds[num_warm:]
    seconds = {
        name: statistics.fmean(parts[place] for parts in counted)
        for place, name in enumerate(("rollout", "update", "publish"))
    }
    totals = [sum(parts) for parts in counted]
    spread = (max(totals) - min(totals)) / statistics.fmean(totals)
    peak = torch.cuda.max_memory_allocated() / 2**30 if is_gpu else 0.0
    return Point(axis, shown_value(axis, shape), seconds, spread, peak)


def open_sides(folder: Path, shapes: Sequence[Shape], *, is_gpu: bool) -> Sides:
    from turnwise.config import parse_settings, read_recipe
    from turnwise.engines.transformers import TransformersEngine
    from turnwise.engines.vllm import VllmEngine, VllmSettings
    from turnwise.training.policy.policy import Policy
    from turnwise.training.update.trainer import Trainer

    name, device = ("qwen3-0.6b", "cuda") if is_gpu else ("tiny", "cpu")
    if is_gpu:
        settings = VllmSettings(
            dtype="bfloat16",
            max_batch=max(shape.num_rows for shape in shapes),
            max_model_len=max(shape.prompt_tokens + shape.tail for shape in shapes),
            memory_share=MEMORY_SHARE,
        )
        write_model(name, folder, device)
        engine: Any = VllmEngine(folder, settings)
        engine.begin_start()
    else:
        engine = TransformersEngine(make_model(name, device))
    keys = {
        "policy.lora_rank": LORA_RANK,
        "policy.gradient_checkpointing": "false",
        "update.tokens_per_microbatch": MICROBATCH,
        "algorithm.correction": "none",  # the samples' log-probs are artificial
        "optimizer.learning_rate": 1e-8,
    }
    recipe = read_recipe(None, parse_settings([f"{key}={value}" for key, value in keys.items()]))
    model = make_model(name, device)
    trainer = Trainer(Policy(model, recipe.policy, is_fused=is_gpu), recipe)
    return Sides(engine, trainer, model.config.vocab_size)


async def measure_all(options: argparse.Namespace) -> list[Point]:
    is_gpu = options.device == "cuda"
    chosen = [(axis, shape) for axis, shape in points_of(is_gpu=is_gpu) if axis in options.axes.split(",")]
    points = []
    with tempfile.TemporaryDirectory(prefix="turnwise-growth-") as scratch:
        sides = open_sides(Path(scratch, "model"), [shape for _, shape in chosen], is_gpu=is_gpu)
        try:
            for axis, shape in chosen:
                points.append(await measure(sides, axis, shape, num_warm=0 if points else NUM_WARM))
                print(json.dumps(asdict(points[-1])), flush=True)
        finally:
            await sides.engine.close()
    return points


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--axes", default=",".join(AXES), help="with commas between")
    parser.add_argument("--plot", type=Path, help="write the curves to this SVG file")
    options = parser.parse_args()
    points = asyncio.run(measure_all(options))
    report(points)
    if options.plot is not None:
        options.plot.write_text(drawing(points))


if __name__ == "__main__":
    main()
