"""The policy scores samples as its plain model does, in every layout, and trains only what it should."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CohereConfig, CohereForCausalLM, Gemma2Config, Gemma2ForCausalLM

from tests.engines.models import SIZES, llama, qwen3, running, some_ids
from tests.training.policies import (
    FULL,
    LORA,
    add_noise,
    both_tunings,
    every_model,
    gradients,
    largest_gap,
    noisy_policy,
    plain_twin,
    tolerance,
    weighted,
)
from tests.training.samples import GIVEN, OWN, family, plain_rows, sample
from turnwise.config.training import PolicyConfig, ValueConfig
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.types import Sampling

ADAPTER = ValueConfig(trunk="adapter")


@torch.no_grad()
def logprobs_of(policy: Policy, **options: Any) -> Tensor:
    return policy.score(family(), **options).logprobs_BT


@both_tunings
@every_model
def test_shared_and_padded_scores_are_those_of_every_sample_alone(
    make: Callable[[], Any], config: PolicyConfig
) -> None:
    policy = noisy_policy(make, config)
    # duplicates and members that share own tokens have different temperatures
    samples = [replace(one, temperature=0.6 + 0.2 * number) for number, one in enumerate(family())]
    with torch.no_grad():
        logprobs_BT, entropy_BT = plain_rows(plain_twin(make, policy), samples)
        for is_shared in (True, False):
            scores = policy.score(samples, is_shared=is_shared)
            assert (scores.logprobs_BT - logprobs_BT).abs().max() < 5e-5
            assert (scores.entropy_BT - entropy_BT).abs().max() < 5e-5
            assert scores.logprobs_BT.dtype == torch.float32
            assert (scores.logprobs_BT[~scores.mask_BT] == 0).all()


@both_tunings
@every_model
def test_gradients_are_those_of_every_sample_alone(make: Callable[[], Any], config: PolicyConfig) -> None:
    policy = noisy_policy(lambda: make().double(), config, value=ValueConfig())
    samples = family()
    alone = gradients(policy, [[one] for one in samples], is_shared=False, with_values=True)
    assert all((gradient != 0).any() for gradient in alone.values())
    exact = {name: tensor for name, tensor in alone.items() if not name.startswith("value")}
    for is_shared in (True, False):
        together = gradients(policy, [samples], is_shared=is_shared, with_values=True)
        assert largest_gap(exact, {name: together[name] for name in exact}) < tolerance(make)
        assert largest_gap(alone, together) < 1e-5, "the value head is in fp32"


@every_model
def test_gradients_are_those_of_the_models_own_logits(make: Callable[[], Any]) -> None:
    policy = noisy_policy(lambda: make().double(), FULL)
    plain = plain_twin(lambda: make().double(), policy)
    weighted(plain_rows(plain, family()), policy.score(family()).mask_BT).backward()
    theirs = {name: parameter.grad for name, parameter in plain.named_parameters()}
    assert largest_gap(theirs, gradients(policy, [family()])) < tolerance(make)


@pytest.mark.parametrize("is_shared", [True, False])
def test_masked_columns_have_exactly_no_gradient(is_shared: bool) -> None:
    policy = noisy_policy(qwen3, value=ValueConfig())
    scores = policy.score(family(), is_shared=is_shared, with_values=True)
    for column in (scores.logprobs_BT, scores.entropy_BT, scores.values_BT):
        assert column is not None
        (column * ~scores.mask_BT * 1e6).sum().backward(retain_graph=True)
    learning = [*policy.trainable.values(), *policy.value_parameters.values()]
    assert all(parameter.grad is None or (parameter.grad == 0).all() for parameter in learning)


def test_adapter_off_is_the_base_bitwise_and_new_adapters_and_value_heads_give_zero() -> None:
    base = logprobs_of(Policy(qwen3(), FULL))
    policy = Policy(qwen3(), LORA, value=ADAPTER)
    new = policy.score(family(), with_values=True)
    assert new.logprobs_BT.equal(base)
    assert (new.values_BT == 0).all()
    assert logprobs_of(policy, adapter="base").equal(base)
    add_noise(policy)
    moved = logprobs_of(policy, with_values=True)
    assert (moved - base).abs().max() > 0.01
    assert logprobs_of(policy, adapter="base").equal(base)
    assert logprobs_of(policy, with_values=True).equal(moved)


def test_only_what_should_learn_requires_gradients() -> None:
    policy = Policy(qwen3(), LORA, value=ADAPTER)

    def learning() -> set[int]:
        return {id(parameter) for parameter in policy.model.parameters() if parameter.requires_grad}

    values = [parameter for name, parameter in policy.value_parameters.items() if name.startswith("adapter")]
    expected = {id(parameter) for parameter in [*policy.trainable.values(), *values]}
    assert len(expected) == len(policy.trainable) + len(values) > 0
    assert learning() == expected
    logprobs_of(policy, adapter="base")
    policy.score(family(), with_values=True)
    assert learning() == expected


@pytest.mark.parametrize("trunk", ["detached", "adapter"])
@pytest.mark.parametrize("is_checkpointing", [False, True])
def test_the_value_loss_never_reaches_the_policy(trunk: Any, is_checkpointing: bool) -> None:
    config = LORA.model_copy(update={"gradient_checkpointing": is_checkpointing})
    policy = noisy_policy(qwen3, config, value=ValueConfig(trunk=trunk))
    scores = policy.score(family(), with_values=True)
    assert scores.values_BT is not None
    assert scores.bootstrap_B is not None
    (scores.values_BT.sum() + scores.bootstrap_B.sum()).backward()
    assert all(parameter.grad is None for parameter in policy.trainable.values())
    assert all(
        parameter.grad is not None and (parameter.grad != 0).any()
        for parameter in policy.value_parameters.values()
    )


def test_values_are_of_the_state_before_every_own_token_and_at_the_end() -> None:
    policy = noisy_policy(qwen3, FULL, value=ValueConfig())
    one = family()[1]
    head = policy.value_parameters
    output = policy.model(torch.tensor([one.token_ids]), output_hidden_states=True)
    values = (output.hidden_states[-1][0] @ head["head.linear.weight"].T + head["head.linear.bias"])[:, 0]
    own = [place for place, is_own in enumerate(one.loss_mask) if is_own]
    for is_shared in (True, False):
        scores = policy.score([*family(), one], with_values=True, is_shared=is_shared)
        assert scores.values_BT is not None
        assert scores.bootstrap_B is not None
        expected = values[torch.tensor(own) - 1]
        assert (scores.values_BT[-1, : len(own)] - expected).abs().max() < 1e-4
        assert (scores.bootstrap_B[-1] - values[-1]).abs() < 1e-4


@pytest.mark.parametrize(
    ("setting", "expected_runs"),
    [(0, (1, 1, 1)), (1, (2, 1, 1)), (2, (2, 2, 1)), (3, (2, 2, 2)), (True, (2, 2, 2))],
)
@both_tunings
def test_gradient_checkpointing_changes_no_gradient(
    config: PolicyConfig, setting: bool | int, expected_runs: tuple[int, ...]
) -> None:
    """Also with the graphs of two adapters: a layer is recomputed with the adapter of its first pass."""
    value = ADAPTER if config.tuning == "lora" else ValueConfig()
    kept = noisy_policy(qwen3, config, value=value)
    recomputed = noisy_policy(
        qwen3, config.model_copy(update={"gradient_checkpointing": setting}), value=value
    )
    calls = Counter[int]()
    for number in range(3):
        layer = recomputed.model.get_submodule(f"model.layers.{number}.mlp")
        layer.register_forward_pre_hook(lambda *_, number=number: calls.update([number]))
    expected = gradients(kept, [family()], with_values=True)
    found = gradients(recomputed, [family()], with_values=True)
    num_passes = 2 if value is ADAPTER else 1
    assert tuple(calls[number] for number in range(3)) == tuple(num_passes * runs for runs in expected_runs)
    assert largest_gap(expected, found) < 1e-6
    with torch.no_grad():
        assert recomputed.score(family()).logprobs_BT.equal(kept.score(family()).logprobs_BT)


def test_a_policy_refuses_to_recompute_more_layers_than_it_has() -> None:
    with pytest.raises(ValueError, match=r"policy\.gradient_checkpointing is 5, but the model has 3 layers"):
        Policy(qwen3(), FULL.model_copy(update={"gradient_checkpointing": 5}))


@pytest.mark.parametrize(("make", "config"), [(qwen3, LORA), (llama, FULL)], ids=["lora", "full"])
async def test_engine_and_policy_agree_before_and_after_every_publication(
    make: Callable[[], Any], config: PolicyConfig
) -> None:
    policy = Policy(make(), config)
    source = random.Random(3)
    prefix = some_ids(source, 80)
    async with running(make()) as engine:

        async def play(number: int, temperature: float) -> tuple[Sample, Tensor]:
            parts: list[tuple[int, Sequence[int]]] = [(GIVEN, [*prefix, *some_ids(source, 1 + number)])]
            logprobs: list[float] = []
            for _ in range(2):
                ids = [token for _, part in parts for token in part]
                sampling = Sampling(max_tokens=12, temperature=temperature)
                completion = await engine.complete(ids, sampling, number)
                logprobs += completion.logprobs
                parts += [(OWN, completion.token_ids), (GIVEN, some_ids(source, 9))]
            return replace(sample(*parts), temperature=temperature), torch.tensor(logprobs)

        for version in range(3):
            asked = (play(number, 0.8 + 0.3 * version + 0.2 * number) for number in range(4))
            played = await asyncio.gather(*asked)
            samples = [episode for episode, _ in played]
            with torch.no_grad():
                scores = policy.score(samples)
                for row, (_, logprobs) in enumerate(played):
                    ours = scores.logprobs_BT[row][scores.mask_BT[row]]
                    assert (ours - logprobs).abs().max() <= 1e-4
                add_noise(policy)
                assert (policy.score(samples).logprobs_BT - scores.logprobs_BT).abs().max() > 0.01
            await engine.publish(policy.weights(), version + 1)


@both_tunings
def test_state_is_restored_bit_for_bit(config: PolicyConfig) -> None:
    policy = Policy(qwen3(), config, value=ValueConfig())
    kept = policy.state()
    before = policy.score(family(), with_values=True)
    add_noise(policy)
    other = Policy(qwen3(), config, value=ValueConfig(), seed=9)
    add_noise(other)
    other.load_state(kept)
    after = other.score(family(), with_values=True)
    assert after.logprobs_BT.equal(before.logprobs_BT)
    assert all(tensor.equal(kept[name]) for name, tensor in other.state().items())
    with pytest.raises(ValueError, match="missing or unknown"):
        other.load_state({**kept, "policy/more": torch.zeros(1)})
    with pytest.raises(ValueError, match="has shape"):
        other.load_state({name: tensor[None] for name, tensor in kept.items()})


def test_adapters_depend_on_their_seed_only() -> None:
    def draw(seed: int) -> dict[str, Tensor]:
        return Policy(qwen3(), LORA, seed=seed).state()

    torch.manual_seed(1)
    one = draw(4)
    position = torch.get_rng_state()
    torch.manual_seed(2)
    assert all(tensor.equal(one[name]) for name, tensor in draw(4).items())
    assert not all(tensor.equal(one[name]) for name, tensor in draw(5).items())
    torch.manual_seed(1)
    assert torch.get_rng_state().equal(position)


def test_bfloat16_keeps_its_adapters_in_single_precision() -> None:
    policy = noisy_policy(lambda: qwen3().bfloat16())
    assert {parameter.dtype for parameter in policy.trainable.values()} == {torch.float32}
    assert {weight.dtype for weight in policy.weights().values()} == {torch.bfloat16}
    assert 0 < (logprobs_of(policy) - logprobs_of(noisy_policy(qwen3))).abs().mean() < 0.2
    gradient = gradients(policy, [family()])
    assert all(tensor.isfinite().all() and (tensor != 0).any() for tensor in gradient.values())


def test_a_model_in_training_mode_is_scored_as_it_samples() -> None:
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    calm = logprobs_of(Policy(llama(), FULL), is_shared=False)
    assert Policy(model.train(), FULL).score(family(), is_shared=False).logprobs_BT.equal(calm)


def gemma2() -> Any:
    """Sliding windows in every second layer, soft-capped logits."""
    torch.manual_seed(3)
    settings: dict[str, Any] = {"final_logit_softcapping": 5.0, "attn_implementation": "eager"}
    config = Gemma2Config(**SIZES, sliding_window=20, **settings)
    return Gemma2ForCausalLM(config).eval()


def test_a_model_with_sliding_windows_is_padded_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        policy = Policy(gemma2(), FULL)
    assert "prefixes are not shared" in caplog.text
    assert not policy.can_share
    logprobs_BT, entropy_BT = plain_rows(gemma2(), family())
    with torch.no_grad():
        scores = policy.score(family(), is_shared=True)
    assert (scores.logprobs_BT - logprobs_BT).abs().max() < 5e-5
    assert (scores.entropy_BT - entropy_BT).abs().max() < 5e-5


def test_a_model_that_scales_its_logits_is_rejected_by_name() -> None:
    with pytest.raises(ValueError, match="CohereForCausalLM: its logits"):
        Policy(CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25)), LORA)


def test_invalid_configurations_and_samples_are_rejected() -> None:
    cold, *_ = family()
    policy = Policy(qwen3(), LORA)
    with pytest.raises(ValueError, match="temperature must be above 0 to be trained at, not 0"):
        policy.score([replace(cold, temperature=0.0)])
    with pytest.raises(ValueError, match="without a value head"):
        policy.score(family(), with_values=True)
    with pytest.raises(ValueError, match=r"needs policy\.tuning='lora'"):
        Policy(qwen3(), FULL, value=ADAPTER)
    with pytest.raises(ValueError, match="lora_targets"):
        Policy(llama(), PolicyConfig(lora_targets=("lm_head",)))
    with pytest.raises(ValueError, match="adapter 'base'"):
        Policy(qwen3(), FULL).score(family(), adapter="base")
