"""A run without a size in its recipe stays within the memory that its sizes were found for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from tests.gpu.device import DEVICE
from tests.setup.memory.measured import fill, samples
from tests.setup.memory.shaped import QWEN3_06B, shallow
from turnwise.config import parse_settings, read_recipe
from turnwise.models.device_memory import Memory
from turnwise.setup.bench import transformers_engine
from turnwise.setup.memory import find_sizes
from turnwise.training.policy.policy import Policy
from turnwise.training.update.trainer import Trainer

GIB = 2**30
MEMORY = Memory(10 * GIB, 10 * GIB)
SHAPE = shallow(QWEN3_06B)


def new_model() -> Any:
    with torch.device(DEVICE):
        return Qwen3ForCausalLM(SHAPE).to(torch.bfloat16)


@pytest.mark.skipif(DEVICE != "cuda", reason="measures the memory of a CUDA device")
async def test_the_sizes_found_for_a_gpu_fit_into_it(tmp_path: Path) -> None:
    SHAPE.save_pretrained(tmp_path)
    keys = [
        f"model.path={tmp_path}",
        f"model.device={DEVICE}",
        "model.dtype=bfloat16",
        "rollout.tokens_per_episode=1024",
        "run.tasks_per_step=16",
    ]
    found = find_sizes(read_recipe(None, parse_settings(keys)), MEMORY)
    recipe, sizes = found.recipe, found.recipe.sizes
    assert found.plan.fits
    assert not sizes.gradient_checkpointing
    assert 1024 < sizes.tokens_per_microbatch < 65_536, "the memory limits it"
    before = torch.cuda.memory_reserved()
    sampled, learning = new_model(), new_model()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    engine = transformers_engine(recipe.model, recipe.sizes, sampled)
    num_cached = await fill(engine, recipe)
    assert num_cached > 0.5 * sizes.cache_tokens
    policy = Policy(learning, recipe.policy, device=DEVICE)
    trainer = Trainer(policy, recipe)
    result = trainer.update(samples(recipe), step=0)
    assert not result.skipped, result.skipped
    assert trainer.facts()["lowered_tokens"] is None, "memory never ran out"
    await engine.publish(policy.weights(), 1)
    await engine.close()
    reserved = torch.cuda.max_memory_reserved() - before
    assert reserved <= MEMORY.total, (
        f"{found.plan.num_bytes / GIB:.2f} GiB planned, {reserved / GIB:.2f} used"
    )
