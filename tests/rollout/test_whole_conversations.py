"""Invariants 1 and 5 over whole conversations with real engines and servers.

tests/test_smollm2.py does the same with SmolLM2.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests import warm
from tests.models.chat.tokenizers import TOKENIZERS
from tests.rollout.talk import check_exact_from_engine_to_trainer
from tests.rollout.test_exactness import tiny_model
from turnwise.config.episodes import ModelConfig
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.models.places import EMBEDDED
from turnwise.setup.bench import load_model


def embedded() -> tuple[Any, Any]:
    return load_model(ModelConfig(path=EMBEDDED)).eval(), open_chat(load_tokenizer(EMBEDDED))


def tiny(tokenizer: str, **options: bool) -> tuple[Any, Any]:
    return tiny_model(1), open_chat(TOKENIZERS[tokenizer](), system_prompt="Use the tools.", **options)


RENDERERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "embedded": embedded,
    "qwen3": lambda: tiny("qwen3"),
    "qwen3, thinking": lambda: tiny("qwen3", enable_thinking=True),
    "its own template": lambda: tiny("native"),
}


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        await pool.connect(["fmp", "slack"])
        yield pool


@pytest.mark.parametrize("name", RENDERERS)
async def test_what_is_sampled_in_a_conversation_is_what_is_trained(pool: Pool, name: str) -> None:
    model, chat = RENDERERS[name]()
    engine = TransformersEngine(model, device="cpu", max_batch=4)
    try:
        played = await check_exact_from_engine_to_trainer(engine, model, chat, pool)
        num_prefilled = engine.counts.num_prefilled
    finally:
        await engine.close()
    # The opening is computed once. Later, all that came before is cached but for the token sampled last.
    opening = len(played[0].turns[0].new_ids)
    later = sum(len(turn.new_ids) + 1 for trajectory in played for turn in trajectory.turns[1:])
    assert num_prefilled <= opening + later, "tokens were computed again"
