"""The policy scores samples as its plain model does, however laid out, and learns only what it should."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CohereConfig, CohereForCausalLM, Gemma2Config, Gemma2ForCausalLM

from tests.engines.models import SIZES, VOCAB, llama, qwen3, running, some_ids
from tests.training.drawn import GIVEN, MODELS, OWN, family, gpt_neox, plain_rows, sample
from tests.training.policies import CONFIGS, FULL, LORA, apart, gradients, made, stir, weighted
from turnwise.config.training import PolicyConfig, ValueConfig
from turnwise.training.model.policy import Policy
from turnwise.training.packing.microbatches import microbatches
from turnwise.training.packing.samples import Sample
from turnwise.types import Sampling


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_shared_and_padded_scores_are_those_of_each_sample_alone(
    make: Callable[[], Any], config: PolicyConfig, temperature: float
) -> None:
    policy = made(make, config)
    samples = [replace(model, temperature=temperature) for model in family()]
    plain = make()
    plain.load_state_dict(policy.weights(), strict=False)  # tied heads go by one name
    logprobs_BT, entropy_BT = plain_rows(plain, samples, temperature)
    for is_shared in (True, False):
        with torch.no_grad():
            scores = policy.score(samples, is_shared=is_shared)
        assert (scores.logprobs_BT - logprobs_BT).abs().max() < 5e-5
        assert (scores.entropy_BT - entropy_BT).abs().max() < 5e-5
        assert scores.logprobs_BT.dtype == torch.float32
        assert (scores.logprobs_BT[~scores.mask_BT] == 0).all()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_gradients_are_those_of_each_sample_alone(make: Callable[[], Any], config: PolicyConfig) -> None:
    policy = made(lambda: make().double(), config, value=ValueConfig())
    samples = family()
    alone = gradients(policy, [[one] for one in samples], is_shared=False, with_values=True)
    assert all((gradient != 0).any() for gradient in alone.values())
    # whatever the model's type, the value head is in fp32, and so are the norms of all but gpt_neox
    close = 1e-10 if make is gpt_neox else 2e-6
    exact = {name: tensor for name, tensor in alone.items() if not name.startswith("value")}
    for is_shared in (True, False):
        together = gradients(policy, [samples], is_shared=is_shared, with_values=True)
        assert apart(exact, {name: together[name] for name in exact}) < close
        assert apart(alone, together) < 1e-5


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_gradients_are_those_of_an_untouched_model(make: Callable[[], Any]) -> None:
    """Held against autograd through the model's own logits, without anything of ours in between."""
    policy = made(lambda: make().double(), FULL)
    plain = make().double()
    plain.load_state_dict(policy.weights(), strict=False)
    logprobs_BT, entropy_BT = plain_rows(plain, family())
    ours = gradients(policy, [family()])
    weighted([logprobs_BT, entropy_BT], policy.score(family()).mask_BT).backward()
    theirs = {name: parameter.grad for name, parameter in plain.named_parameters()}
    assert apart(theirs, ours) < (1e-10 if make is gpt_neox else 2e-6)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_gradients_in_single_precision_know_nothing_of_order_or_microbatches(config: PolicyConfig) -> None:
    policy = made(qwen3, config, value=ValueConfig())
    samples = family()
    whole = gradients(policy, [samples], with_values=True)
    mixed = random.Random(1).sample(samples, len(samples))
    assert apart(whole, gradients(policy, [mixed], with_values=True)) < 1e-4
    for tokens in (1, 300, 2000):
        for is_shared in (True, False):
            rows = microbatches(samples, tokens, is_shared=is_shared)
            parts = [[samples[row] for row in part] for part in rows]
            assert apart(whole, gradients(policy, parts, is_shared=is_shared, with_values=True)) < 1e-4


def test_padding_changes_nothing() -> None:
    policy = made(qwen3)
    short = family()[:1]
    long = sample((GIVEN, [1] * 200), (OWN, [2] * 100))
    with torch.no_grad():
        alone = policy.score(short, is_shared=False)
        beside = policy.score([*short, long], is_shared=False)
    width = alone.mask_BT.shape[1]
    assert (beside.logprobs_BT[0, :width] - alone.logprobs_BT[0]).abs().max() < 1e-5
    assert (beside.logprobs_BT[0, width:] == 0).all()
    assert beside.mask_BT[0].sum() == width


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_shared_prefix_is_computed_once(is_shared: bool) -> None:
    policy = Policy(qwen3(), LORA)
    samples = [sample((GIVEN, [7] * 100), (OWN, [number] * 20)) for number in range(8)]
    seen = []
    policy.model.get_input_embeddings().register_forward_hook(lambda *call: seen.append(call[1][0].numel()))
    scores = policy.score(samples, is_shared=is_shared)
    assert seen == [scores.num_tokens] == [100 + 8 * 20 if is_shared else 8 * 120]


@pytest.mark.parametrize("is_shared", [True, False])
def test_masked_columns_have_exactly_no_gradient(is_shared: bool) -> None:
    policy = made(qwen3, value=ValueConfig())
    scores = policy.score(family(), is_shared=is_shared, with_values=True)
    for column in (scores.logprobs_BT, scores.entropy_BT, scores.values_BT):
        assert column is not None
        (column * ~scores.mask_BT * 1e6).sum().backward(retain_graph=True)
    learning = [*policy.trainable.values(), *policy.value_parameters.values()]
    assert all(parameter.grad is None or (parameter.grad == 0).all() for parameter in learning)


def test_tokens_that_are_not_own_are_never_targets() -> None:
    """Another ending in tool output after the last own token changes no score and no gradient."""
    policy = made(qwen3)
    source = random.Random(0)
    prompt, own = some_ids(source, 30), some_ids(source, 10)
    ends = [sample((GIVEN, prompt), (OWN, own), (GIVEN, some_ids(source, 5))) for _ in range(2)]
    one, other = (gradients(policy, [[end]]) for end in ends)
    assert apart(one, other) < 1e-5


def test_adapter_off_is_the_base_bitwise_and_a_new_one_changes_nothing() -> None:
    with torch.no_grad():
        base = Policy(qwen3(), FULL).score(family())
        policy = Policy(qwen3(), LORA, value=ValueConfig(trunk="adapter"))
        new = policy.score(family(), with_values=True)
        assert new.logprobs_BT.equal(base.logprobs_BT)
        assert new.entropy_BT.equal(base.entropy_BT)
        assert policy.score(family(), adapter="base").logprobs_BT.equal(base.logprobs_BT)
        stir(policy)
        moved = policy.score(family(), with_values=True)
        assert (moved.logprobs_BT - base.logprobs_BT).abs().max() > 0.01
        assert policy.score(family(), adapter="base").logprobs_BT.equal(base.logprobs_BT)
        assert policy.score(family(), with_values=True).logprobs_BT.equal(moved.logprobs_BT)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_other_tensors_can_stand_in_for_those_that_learn(config: PolicyConfig) -> None:
    policy = Policy(qwen3(), config)
    before = {name: parameter.detach().clone() for name, parameter in policy.trainable.items()}
    with torch.no_grad():
        start = policy.score(family()).logprobs_BT
        stir(policy)
        moved = policy.score(family()).logprobs_BT
        assert policy.score(family(), parameters=before).logprobs_BT.equal(start)
        assert policy.score(family()).logprobs_BT.equal(moved)
    assert not moved.equal(start)


def test_only_what_should_learn_requires_gradients() -> None:
    policy = Policy(qwen3(), LORA, value=ValueConfig(trunk="adapter"))

    def learning() -> set[int]:
        return {id(parameter) for parameter in policy.model.parameters() if parameter.requires_grad}

    values = [parameter for name, parameter in policy.value_parameters.items() if name.startswith("adapter")]
    expected = {id(parameter) for parameter in [*policy.trainable.values(), *values]}
    assert len(expected) == len(policy.trainable) + len(values) > 0
    assert learning() == expected
    with torch.no_grad():
        policy.score(family(), adapter="base")
    policy.score(family(), with_values=True)
    assert learning() == expected


@pytest.mark.parametrize("trunk", ["detached", "adapter"])
@pytest.mark.parametrize("is_checkpointing", [False, True])
def test_the_value_loss_never_reaches_the_policy(trunk: Any, is_checkpointing: bool) -> None:
    config = LORA.model_copy(update={"gradient_checkpointing": is_checkpointing})
    policy = made(qwen3, config, value=ValueConfig(trunk=trunk))
    scores = policy.score(family(), with_values=True)
    assert scores.values_BT is not None
    assert scores.bootstrap_B is not None
    (scores.values_BT.sum() + scores.bootstrap_B.sum()).backward()
    assert all(parameter.grad is None for parameter in policy.trainable.values())
    assert all(
        parameter.grad is not None and (parameter.grad != 0).any()
        for parameter in policy.value_parameters.values()
    )


def test_values_are_of_the_state_before_each_token_and_at_the_end() -> None:
    policy = made(qwen3, FULL, value=ValueConfig())
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


def test_a_new_value_head_says_zero() -> None:
    scores = Policy(qwen3(), LORA, value=ValueConfig()).score(family(), with_values=True)
    assert scores.values_BT is not None
    assert (scores.values_BT == 0).all()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_gradient_checkpointing_changes_no_gradient(config: PolicyConfig) -> None:
    """Also where two adapters' graphs wait at once: a layer is run again with the adapter it ran with."""
    trunk: Any = "adapter" if config.tuning == "lora" else "detached"
    kept = made(qwen3, config, value=ValueConfig(trunk=trunk))
    again = made(
        qwen3, config.model_copy(update={"gradient_checkpointing": True}), value=ValueConfig(trunk=trunk)
    )
    calls = []
    again.model.get_submodule("model.layers.1.mlp").register_forward_pre_hook(lambda *_: calls.append(1))
    ones = gradients(kept, [family()], with_values=True)
    others = gradients(again, [family()], with_values=True)
    assert len(calls) == (4 if trunk == "adapter" else 2)
    assert apart(ones, others) < 1e-6


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", [qwen3, llama])
async def test_engine_and_policy_agree_before_and_after_every_publication(
    make: Callable[[], Any], config: PolicyConfig
) -> None:
    """Invariant 1."""

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
            temperature = 0.8 + 0.3 * version
            played = await asyncio.gather(*(play(number, temperature) for number in range(5)))
            samples = [episode for episode, _ in played]
            with torch.no_grad():
                scores = policy.score(samples)
                for row, (_, logprobs) in enumerate(played):
                    ours = scores.logprobs_BT[row][scores.mask_BT[row]]
                    assert (ours - logprobs).abs().max() <= 1e-4
                stir(policy)
                assert (policy.score(samples).logprobs_BT - scores.logprobs_BT).abs().max() > 0.01
            await engine.publish(policy.weights(), version + 1)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_state_comes_back_bit_by_bit(config: PolicyConfig) -> None:
    policy = Policy(qwen3(), config, value=ValueConfig())
    kept = policy.state()
    before = policy.score(family(), with_values=True)
    stir(policy)
    other = Policy(qwen3(), config, value=ValueConfig(), seed=9)
    stir(other)
    other.load_state(kept)
    after = other.score(family(), with_values=True)
    assert after.logprobs_BT.equal(before.logprobs_BT)
    assert all(tensor.equal(kept[name]) for name, tensor in other.state().items())
    with pytest.raises(ValueError, match="missing or unknown"):
        other.load_state({**kept, "policy/more": torch.zeros(1)})
    with pytest.raises(ValueError, match="has shape"):
        other.load_state({name: tensor[None] for name, tensor in kept.items()})


def test_adapters_are_drawn_from_the_seed_and_nothing_else() -> None:
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
    policy = made(lambda: qwen3().bfloat16())
    assert {parameter.dtype for parameter in policy.trainable.values()} == {torch.float32}
    assert {weight.dtype for weight in policy.weights().values()} == {torch.bfloat16}
    exact = made(qwen3)
    with torch.no_grad():
        gap = (policy.score(family()).logprobs_BT - exact.score(family()).logprobs_BT).abs()
    assert 0 < gap.mean() < 0.2
    gradient = gradients(policy, [family()])
    assert all(tensor.isfinite().all() and (tensor != 0).any() for tensor in gradient.values())


def test_a_model_in_training_mode_is_scored_as_it_samples() -> None:
    def dropping() -> Any:
        model = llama()
        model.config.attention_dropout = 0.5
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.5
        return model.train()

    with torch.no_grad():
        calm = Policy(llama(), FULL).score(family(), is_shared=False).logprobs_BT
    assert Policy(dropping(), FULL).score(family(), is_shared=False).logprobs_BT.equal(calm)


def gemma2() -> Any:
    """Sliding windows in every other layer, capped logits."""
    torch.manual_seed(3)
    config = Gemma2Config(
        **SIZES, sliding_window=20, final_logit_softcapping=5.0, attn_implementation="eager"
    )
    return Gemma2ForCausalLM(config).eval()


def test_a_model_with_sliding_windows_takes_the_plain_way_and_says_so(
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


def test_a_model_that_does_more_to_its_logits_is_refused_by_name() -> None:
    torch.manual_seed(4)
    model = CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25))
    with pytest.raises(ValueError, match="CohereForCausalLM: its logits"):
        Policy(model, LORA)


def test_what_makes_no_sense_is_refused() -> None:
    cold, *others = family()
    with pytest.raises(ValueError, match="temperature must be above 0 to be trained at, not 0"):
        Policy(qwen3(), LORA).score([replace(cold, temperature=0.0)])
    with pytest.raises(ValueError, match=r"samples of one pass were drawn at \[0\.5, 1\.0\]"):
        Policy(qwen3(), LORA).score([replace(cold, temperature=0.5), *others])
    with pytest.raises(ValueError, match=r"needs policy\.tuning='lora'"):
        Policy(qwen3(), FULL, value=ValueConfig(trunk="adapter"))
    with pytest.raises(ValueError, match="lora_targets"):
        Policy(llama(), PolicyConfig(lora_targets=("lm_head",)))
    with pytest.raises(ValueError, match="without a value head"):
        Policy(qwen3(), LORA).score(family(), with_values=True)
    with pytest.raises(ValueError, match="adapter 'base'"):
        Policy(qwen3(), FULL).score(family(), adapter="base")


def test_samples_without_own_tokens_score_nothing() -> None:
    scores = Policy(qwen3(), LORA).score([sample((GIVEN, [1, 2, 3]))])
    assert scores.logprobs_BT.shape == (1, 0)
    scores.logprobs_BT.sum().backward()


def test_the_vocabulary_of_these_tests_is_the_models() -> None:
    assert all(make().config.vocab_size == VOCAB for make in MODELS.values())
