"""Trained rows of single tokens: exact gradients, merged weights, and a model that learns to say a token."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engines.models import llama, qwen3
from tests.training.policies import FULL, gradients, loss_of, noisy_policy, plain_twin
from tests.training.samples import GIVEN, OWN, family, sample
from turnwise.config import Recipe
from turnwise.config.training import PolicyConfig
from turnwise.models.chat import load_tokenizer
from turnwise.setup.bench import chat_of, load_model
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.adapters import BASE
from turnwise.training.policy.call_tokens import choose_call_tokens, untrained_call_tokens
from turnwise.training.policy.model_folder import save_adapter
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import fine_tune
from turnwise.types import ToolCall

both_heads = pytest.mark.parametrize("make", [qwen3, llama], ids=["tied head", "separate head"])


def used_tokens(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Three tokens that the samples contain."""
    seen = sorted({token for sample in samples for token in sample.token_ids} - {0})  # 0 is padding
    return (seen[0], seen[-2], seen[-1])


def rows_config(ids: Sequence[int]) -> PolicyConfig:
    return PolicyConfig(lora_rank=4, lora_alpha=8, lora_tokens=tuple(ids))


@both_heads
def test_rows_get_the_gradients_that_full_tuning_gives_them(make: Callable[[], Any]) -> None:
    samples = family()
    ids = used_tokens(samples)
    found = gradients(Policy(make().double(), rows_config(ids)), [samples])
    model = make().double()
    full = Policy(model, FULL)
    loss_of(full.score(samples)).backward()
    expected = {"lora_rows": model.get_input_embeddings().weight.grad[list(ids)]}
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        expected["lora_head_rows"] = model.get_output_embeddings().weight.grad[list(ids)]
    assert {name for name in found if "rows" in name} == set(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=2e-6, atol=2e-6)


@both_heads
def test_a_plain_model_with_the_merged_weights_scores_the_same(make: Callable[[], Any]) -> None:
    samples = family()
    policy = noisy_policy(make, rows_config(used_tokens(samples)))
    plain = Policy(plain_twin(make, policy), FULL)
    with torch.no_grad():
        ours, theirs = policy.score(samples), plain.score(samples)
        base, untouched = policy.score(samples, adapter=BASE), Policy(make(), FULL).score(samples)
    torch.testing.assert_close(ours.logprobs_BT, theirs.logprobs_BT, rtol=0, atol=1e-4)
    assert not torch.allclose(base.logprobs_BT, ours.logprobs_BT, atol=1e-3)
    torch.testing.assert_close(base.logprobs_BT, untouched.logprobs_BT, rtol=0, atol=1e-6)


def test_an_adapter_with_rows_is_saved_only_merged(tmp_path: Path) -> None:
    policy = Policy(qwen3(), rows_config((1,)))
    with pytest.raises(ValueError, match=r"policy\.lora_tokens: the rows of some tokens .* save it merged"):
        save_adapter(policy, load_tokenizer("embedded"), tmp_path / "adapter", base="embedded")


def test_a_token_that_the_model_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"policy\.lora_tokens: the model has no token 99999"):
        Policy(qwen3(), rows_config((1, 99_999)))


# --- a model that cannot say a call ------------------------------------------------------------------------

RECIPE = Recipe.model_validate(
    {"sft": {"learning_rate": 3e-3, "num_epochs": 40}, "model": {"path": "embedded"}}
)


def unable_model() -> Any:
    """The embedded model with the rows of its call tokens replaced by that of an unused token."""
    model, ids = load_model(RECIPE.model), chat_of(RECIPE.model).call_ids
    with torch.no_grad():
        rows: Tensor = model.get_output_embeddings().weight
        unused = rows[rows.norm(dim=1).argmin()].clone()
        rows[list(ids)] = unused
    return model


def call_sample() -> Sample:
    own = chat_of(RECIPE.model).say("", [ToolCall("call_0", "tool", {"a": 1})])
    prompt = tuple(range(40, 60))
    return sample((GIVEN, prompt), (OWN, own))


def test_a_trained_model_needs_no_rows_and_an_unable_one_gets_them() -> None:
    chat = chat_of(RECIPE.model)
    assert choose_call_tokens(RECIPE, load_model(RECIPE.model), chat).recipe.policy.lora_tokens is None
    model = unable_model()
    found = untrained_call_tokens(model, chat)
    assert [token.text for token in found] == ["<tool_call>", "</tool_call>"]
    assert all(token.num_alike >= 2 for token in found)
    choice = choose_call_tokens(RECIPE, model, chat)
    assert choice.recipe.policy.lora_tokens == chat.call_ids
    assert "<tool_call> has the same row in the head as" in choice.note


def test_rows_teach_a_call_that_adapters_alone_cannot() -> None:
    first = {}
    for name, ids in {"adapters": (), "rows": chat_of(RECIPE.model).call_ids}.items():
        policy = Policy(unable_model(), PolicyConfig(lora_tokens=ids))
        fine_tune(policy, [call_sample()] * 4, RECIPE)
        with torch.no_grad():
            scores = policy.score([call_sample()])
        first[name] = scores.logprobs_BT[scores.mask_BT][0].exp().item()
    assert first["adapters"] < 0.5  # the same row as others: at most its share
    assert first["rows"] > 0.9
