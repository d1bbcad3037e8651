"""QLoRA on a GPU: updates on a base of 4 bits per weight, and an engine on the same base."""

import random
from pathlib import Path

import pytest

from tests.engines.models import qwen3, running, some_ids, worst_gap
from tests.gpu.device import DEVICE
from tests.system.ranks.updates import Scenario, learn
from tests.training.updates import some_samples
from turnwise.config import ModelConfig
from turnwise.models import quantised
from turnwise.models.model_support import is_quantised
from turnwise.models.quantised import plain_weights, twin
from turnwise.setup.bench import load_model
from turnwise.training.policy.policy import Policy
from turnwise.training.update.trainer import Trainer
from turnwise.types import Sampling

pytestmark = pytest.mark.skipif(bool(quantised.why_not()), reason=quantised.why_not() or "-")


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "padded"])
async def test_adapters_learn_on_a_packed_base_and_the_engine_follows(
    tmp_path: Path, is_shared: bool
) -> None:
    qwen3(head_dim=32).save_pretrained(tmp_path / "model")
    settings = ModelConfig(path=str(tmp_path / "model"), quantisation="nf4", device=DEVICE)
    base = load_model(settings)
    assert any(is_quantised(parameter) for parameter in base.parameters())
    plain = qwen3(head_dim=32)
    plain.load_state_dict({name: weight.cpu() for name, weight in plain_weights(base).items()}, strict=False)
    scenario = Scenario(
        {
            "policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8},
            "update": {"shared_prefix": is_shared, "tokens_per_microbatch": 200},
        },
        lambda: some_samples(model=plain, prefix=80),
    )
    policy = Policy(twin(base), scenario.recipe.policy)
    trainer = Trainer(policy, scenario.recipe)
    result = learn(scenario, trainer)
    assert result.skipped == ""
    assert result.metrics["kl/sampler"] < 1e-3, "the packed base agrees with its plain weights"

    prompt = some_ids(random.Random(1), 60)
    async with running(base, device=DEVICE) as engine:
        await engine.publish(policy.adapter(), 1)
        completion = await engine.complete(prompt, Sampling(max_tokens=12), 1)
    learned = qwen3(head_dim=32)
    learned.load_state_dict({name: weight.cpu() for name, weight in policy.weights().items()}, strict=False)
    assert worst_gap(learned, prompt, completion) < 5e-2
