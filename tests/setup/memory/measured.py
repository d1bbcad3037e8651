"""Sample, train and publish as a run of a recipe would at its largest, and print the memory used.

A separate program, because it measures the peak of a process:

    python -m tests.setup.memory.measured RECIPE [KEY=VALUE…]  -> {"planned": …, "used": …, "num_cached": …}

On a GPU `used` is the peak of torch's tensors. `reserved` is the memory that torch took from the driver for
them. `context` is the rest: the driver, its kernels and other processes on the GPU. `loading` is the peak
until the weights were loaded, which `used` does not include.
"""

import asyncio
import gc
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from tests.training.samples import GIVEN, OWN, sample
from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.models.devices import choose_device
from turnwise.models.quantised import twin
from turnwise.setup.bench import load_model, transformers_engine
from turnwise.setup.memory import find_sizes, load_config, memory_for
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.trainer import Trainer
from turnwise.types import Sampling


def resident(name: str) -> int:
    """`VmRSS`, or `VmHWM` for its peak, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


class Process:
    """The resident set of this process, minus what torch needs for itself."""

    def __init__(self) -> None:
        # Large enough to fill the buffers of the matrix library: OpenBLAS, on ARM, keeps 32 MB.
        torch.nn.Linear(2048, 2048)(torch.zeros(1024, 2048)).sum().backward()
        gc.collect()
        self._before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak

    def end_loading(self) -> int:
        return self.peak()

    def now(self) -> int:
        return resident("VmRSS") - self._before

    def peak(self) -> int:
        return resident("VmHWM") - self._before

    def details(self) -> dict[str, int]:
        return {}


class Gpu:
    """The memory of torch's tensors on the GPU."""

    def __init__(self) -> None:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        self._others = int(subprocess.check_output(query, text=True).split()[0]) * 2**20
        torch.cuda.init()  # type: ignore[no-untyped-call]

    def end_loading(self) -> int:
        peak = self.peak()
        torch.cuda.reset_peak_memory_stats()
        return peak

    def now(self) -> int:
        return torch.cuda.memory_allocated()

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated()

    def details(self) -> dict[str, int]:
        free, total = torch.cuda.mem_get_info()
        context = total - free - torch.cuda.memory_reserved() - self._others
        return {"reserved": torch.cuda.max_memory_reserved(), "context": context}


def model_of(recipe: Recipe) -> Any:
    """The recipe's model; for a folder without weights, its shape with random weights."""
    path = Path(recipe.model.path)
    if path.is_dir() and not list(path.glob("*.safetensors")):
        dtype = getattr(torch, recipe.model.dtype)
        return AutoModelForCausalLM.from_config(load_config(recipe.model.path), dtype=dtype)
    return load_model(recipe.model)


def ids(source: random.Random, count: int) -> list[int]:
    return [source.randrange(1000) for _ in range(count)]


async def fill(engine: Any, recipe: Recipe) -> int:
    """Complete different prompts until the cache is full; returns its peak number of tokens."""
    source, length = random.Random(0), recipe.rollout.tokens_per_episode
    wanted = Sampling(temperature=1.0, max_tokens=min(8, length // 2))
    count = recipe.sizes.cache_tokens // (length - 8) + 1
    await asyncio.gather(
        *(engine.complete(ids(source, length - 8), wanted, number) for number in range(count))
    )
    return int(engine.counts.most_cached)


def samples(recipe: Recipe) -> list[Sample]:
    """The tokens of two full micro-batches; half of them are the model's own."""
    source, length = random.Random(1), recipe.rollout.tokens_per_episode
    count = 2 * recipe.sizes.tokens_per_microbatch // length
    half = length // 2
    return [
        sample((GIVEN, ids(source, half)), (OWN, ids(source, half)), group=n // 2, reward=float(n % 2))
        for n in range(count)
    ]


def main() -> None:
    recipe = read_recipe(Path(sys.argv[1]), parse_settings(sys.argv[2:]))
    device = choose_device(recipe.model.device)
    sized = find_sizes(recipe, memory_for(recipe.model.device, recipe.hardware.num_processes))
    recipe, planned = sized.recipe, sized.plan
    meter = Gpu() if device == "cuda" else Process()
    sampled = model_of(recipe)
    # a quantised base is shared by engine and policy, as in a run
    learning = model_of(recipe) if recipe.model.quantisation == "none" else twin(sampled)
    loading = meter.end_loading()
    engine = transformers_engine(recipe.model, recipe.sizes, sampled)
    num_cached = asyncio.run(fill(engine, recipe))
    played = meter.now()
    policy = Policy(learning, recipe.policy, device=device)
    trainer = Trainer(policy, recipe)
    result = trainer.update(samples(recipe), step=0)
    assert not result.skipped, result.skipped
    learned = meter.peak()
    weights = policy.adapter() if recipe.publishes_adapters else policy.weights()
    asyncio.run(engine.publish(weights, 1))
    parts = {part.name: part.num_bytes for part in planned.parts}
    report = {
        "planned": sum(size for name, size in parts.items() if name != "CUDA itself"),
        "used": meter.peak(),
        "loading": loading,
        "played": played,
        "learned": learned,
        **meter.details(),
        "num_cached": num_cached,
        "num_microbatches": result.metrics["update/num_microbatches"],
        "parts": parts,
    }
    asyncio.run(engine.close())
    print(json.dumps(report))


if __name__ == "__main__":
    main()
