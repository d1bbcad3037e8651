"""Takes a recipe, samples, learns and publishes as a run would at its fullest, and prints what that took.

A program of its own, since the peak of a process is asked for:

    python -m tests.planning.measured RECIPE [KEY=VALUE…]   ->   {"planned": …, "used": …, "num_cached": …}
"""

import asyncio
import gc
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from tests.training.drawn import GIVEN, OWN, sample
from turnwise.config import Recipe, load_recipe
from turnwise.planning import load_config, plan_memory
from turnwise.training.policy import Policy
from turnwise.training.samples import Sample
from turnwise.training.trainer import Trainer
from turnwise.types import Sampling
from turnwise.workbench import load_model, transformers_engine


def resident(name: str) -> int:
    """`VmRSS`, or `VmHWM` for its peak, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def made(recipe: Recipe) -> Any:
    """The recipe's model; of a folder that has no weights, its shape filled at random."""
    path = Path(recipe.model.path)
    if path.is_dir() and not list(path.glob("*.safetensors")):
        dtype = getattr(torch, recipe.model.dtype)
        return AutoModelForCausalLM.from_config(load_config(recipe.model.path), dtype=dtype)
    return load_model(recipe.model)


def ids(source: random.Random, count: int) -> list[int]:
    return [source.randrange(1000) for _ in range(count)]


async def fill(engine: Any, recipe: Recipe) -> int:
    """Different prompts, until more tokens were computed than the cache may keep."""
    source, length = random.Random(0), recipe.rollout.tokens_per_episode
    wanted = Sampling(temperature=1.0, max_tokens=min(8, length // 2))
    count = recipe.engine.cache_tokens // (length - 8) + 1
    await asyncio.gather(
        *(engine.complete(ids(source, length - 8), wanted, number) for number in range(count))
    )
    return int(engine.counts.most_cached)


def samples(recipe: Recipe) -> list[Sample]:
    """As many tokens as go into a micro-batch, twice; half of them own."""
    source, length = random.Random(1), recipe.rollout.tokens_per_episode
    count = 2 * recipe.update.tokens_per_microbatch // length
    halves = length // 2
    return [
        sample((GIVEN, ids(source, halves)), (OWN, ids(source, halves)), group=n // 2, reward=float(n % 2))
        for n in range(count)
    ]


def main() -> None:
    recipe = load_recipe(Path(sys.argv[1]), sys.argv[2:])
    planned = plan_memory(recipe, "cpu")
    torch.nn.Linear(256, 256)(torch.zeros(64, 256)).sum().backward()  # what torch keeps for itself
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    engine = transformers_engine(recipe, made(recipe))
    num_cached = asyncio.run(fill(engine, recipe))
    played = resident("VmRSS") - before
    policy = Policy(made(recipe), recipe.policy, device="cpu")
    trainer = Trainer(policy, recipe)
    result = trainer.update(samples(recipe), step=0)
    assert not result.skipped, result.skipped
    learned = resident("VmHWM") - before
    weights = policy.adapter() if recipe.publishes_adapters else policy.weights()
    asyncio.run(engine.publish(weights, 1))
    report = {
        "planned": planned.num_bytes,
        "used": resident("VmHWM") - before,
        "played": played,
        "learned": learned,
        "num_cached": num_cached,
        "num_microbatches": result.metrics["update/num_microbatches"],
        "parts": {part.name: part.num_bytes for part in planned.parts},
    }
    asyncio.run(engine.close())
    print(json.dumps(report))


if __name__ == "__main__":
    main()
