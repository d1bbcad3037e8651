"""A prefix that a whole pass shares is computed once, with the same scores and gradients."""

import gc
import random
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engines.models import llama, qwen3
from tests.training.policies import (
    FULL,
    LORA,
    add_noise,
    both_tunings,
    every_model,
    gradients,
    largest_gap,
    loss_of,
    noisy_policy,
    pass_gradients,
    plain_twin,
    tolerance,
)
from tests.training.samples import GIVEN, OWN, family, plain_rows, sample
from tests.training.updates import assert_close, new_trainer, recipe_of, some_samples
from turnwise.config.training import PolicyConfig, ValueConfig
from turnwise.training.kernels.prefix import Prefix
from turnwise.training.packing.batch import batch_of
from turnwise.training.packing.layout import common_prefix
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.policy import Policy
from turnwise.training.update.scoring import MIN_CARRIED, Pass, Passes

CHECKPOINTING = {"gradient_checkpointing": True}


def relatives() -> list[Sample]:
    """Two groups with a common beginning, members that share more, and a duplicate."""
    samples = family(prefix=90)
    return [*samples[:8], samples[9]]


def begun(policy: Policy, samples: Sequence[Sample], tokens: int = 200, **options: Any) -> Pass:
    return Passes(policy, tokens_per_microbatch=tokens).begin(samples, **options)


def computed(policy: Policy) -> list[int]:
    """A list that grows by the number of tokens of every forward pass."""
    seen: list[int] = []
    policy.model.get_input_embeddings().register_forward_hook(lambda *call: seen.append(call[1][0].numel()))
    return seen


def test_the_prefix_of_these_samples_is_long_enough_to_be_carried() -> None:
    assert len(common_prefix(relatives())) == 90 >= MIN_CARRIED
    policy = Policy(qwen3(), FULL)
    assert [len(begun(policy, relatives(), tokens).parts) for tokens in (1, 200, 350, 999)] == [9, 5, 2, 1]


# --- the same scores and gradients -------------------------------------------------------------------------


@torch.no_grad()
def assert_scores(run: Pass, logprobs_BT: Tensor, entropy_BT: Tensor) -> None:
    for part in run.parts:
        scores = run.score(part)
        width = scores.mask_BT.shape[1]
        assert (scores.logprobs_BT - logprobs_BT[part, :width]).abs().max() < 5e-5
        assert (scores.entropy_BT - entropy_BT[part, :width]).abs().max() < 5e-5


@both_tunings
@every_model
def test_scores_and_gradients_are_those_of_every_sample_alone(
    make: Callable[[], Any], config: PolicyConfig
) -> None:
    with torch.no_grad():
        policy = noisy_policy(make, config)
        assert_scores(begun(policy, relatives()), *plain_rows(plain_twin(make, policy), relatives()))
    policy = noisy_policy(lambda: make().double(), config, value=ValueConfig())
    alone = gradients(policy, [[one] for one in relatives()], is_shared=False, with_values=True)
    carried = pass_gradients(policy, relatives(), 200, with_values=True)
    exact = {name: tensor for name, tensor in alone.items() if not name.startswith("value")}
    assert largest_gap(exact, {name: carried[name] for name in exact}) < tolerance(make)
    assert largest_gap(alone, carried) < 1e-5, "the value head is in fp32"


@both_tunings
def test_other_tensors_replace_those_that_learn_and_the_base_replaces_its_adapter(
    config: PolicyConfig,
) -> None:
    policy = Policy(qwen3(), config)
    before = {name: parameter.detach().clone() for name, parameter in policy.trainable.items()}
    add_noise(policy)
    choices: list[dict[str, Any]] = [{"parameters": before}, *([{"adapter": "base"}] * policy.is_lora)]
    for choice in choices:
        with torch.no_grad():
            expected, current = policy.score(relatives(), **choice), policy.score(relatives())
            run = begun(policy, relatives(), **choice)
        assert (expected.logprobs_BT - current.logprobs_BT).abs().max() > 0.01
        assert_scores(run, expected.logprobs_BT, expected.entropy_BT)


@pytest.mark.parametrize("trunk", ["detached", "adapter"])
@pytest.mark.parametrize("options", [{}, CHECKPOINTING], ids=["kept", "checkpointing"])
def test_gradients_of_values_do_not_depend_on_order_or_budget(trunk: Any, options: dict[str, bool]) -> None:
    policy = noisy_policy(qwen3, LORA.model_copy(update=options), value=ValueConfig(trunk=trunk))
    whole = gradients(policy, [relatives()], with_values=True)
    assert all((tensor != 0).any() for tensor in whole.values())
    for tokens in (1, 350):
        mixed = random.Random(tokens).sample(relatives(), 9)
        assert largest_gap(whole, pass_gradients(policy, mixed, tokens, with_values=True)) < 1e-4


def test_adapters_that_do_not_change_keys_are_trained() -> None:
    """The keys and values of the first layer then have no gradient; those of later layers do."""
    policy = noisy_policy(qwen3, LORA.model_copy(update={"lora_targets": ("q_proj", "down_proj")}))
    whole = gradients(policy, [relatives()])
    assert largest_gap(whole, pass_gradients(policy, relatives(), 200)) < 1e-4


def test_gradients_of_many_microbatches_are_not_rounded_away() -> None:
    """1 and 256 times 1/256: in bf16 the sum would stay 1."""
    weight = torch.ones(1, 1, 1, 1, dtype=torch.bfloat16, requires_grad=True)
    layer = torch.nn.Module()
    prefix = Prefix({layer: (weight * 1, weight * 1)})
    key, value = prefix.layers[layer]
    for share in [1.0, *[1 / 256] * 256]:
        (key * share).sum().backward()
    prefix.backward()
    assert weight.grad is not None
    assert weight.grad.item() == 2.0
    assert value.grad is None


# --- the trainer -------------------------------------------------------------------------------------------

KL = {"algorithm": {"kl": {"placement": "loss_k2", "coefficient": 0.1}, "entropy_bonus": 0.01}}
ADAPTED = {"policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}}
CHOICES: dict[str, tuple[int, dict[str, Any]]] = {
    "full, frozen reference": (1, {**KL, "reference": {"kind": "frozen"}}),
    "full, ema reference": (150, {**KL, "reference": {"kind": "ema", "decay": 0.5}}),
    "lora, hard reference": (150, {**ADAPTED, **KL, "reference": {"kind": "hard"}}),
    "full, values": (150, {"algorithm": {"advantage": "gae"}}),
    "lora, values": (1, {**ADAPTED, "algorithm": {"advantage": "gae"}, "value": {"trunk": "adapter"}}),
    "ratio bounds": (1, {"algorithm": {"min_ratio": 0.5, "max_ratio": 2.0}}),
    "checkpointing, imitation": (150, {"policy": CHECKPOINTING, "imitation": {"weight": 0.5}}),
}
"""Tokens per micro-batch and the settings."""


def learned(sections: dict[str, Any], tokens: int, *, shared_prefix: bool = True) -> dict[str, Tensor]:
    """The policy after two updates of two optimizer steps: keys of earlier weights would show."""
    update = {"num_minibatches": 2, "tokens_per_microbatch": tokens, "shared_prefix": shared_prefix}
    trainer = new_trainer(recipe_of(sections, update=update))
    demonstrations = some_samples(4, seed=7, prefix=80)  # several micro-batches in every step
    for step in range(2):
        samples = some_samples(4, seed=step, prefix=80)
        assert trainer.update(samples, step=step, imitation=demonstrations).skipped == ""
    return trainer.policy.state()


@pytest.mark.parametrize("choice", CHOICES)
def test_many_steps_give_the_same_weights_at_every_budget(choice: str) -> None:
    tokens, sections = CHOICES[choice]
    plain = learned(sections, 100_000, shared_prefix=False)
    assert_close(learned(sections, tokens), plain, tolerance=5e-5)


def test_every_pass_computes_the_prefix_once() -> None:
    """Two optimizer steps, π_old and the reference before them."""
    samples = some_samples(4, prefix=80)
    recipe = recipe_of(
        KL, reference={"kind": "frozen"}, update={"num_minibatches": 2, "tokens_per_microbatch": 150}
    )
    trainer = new_trainer(recipe)
    seen = computed(trainer.policy)
    metrics = trainer.update(samples, step=0).metrics
    size = len(common_prefix(samples))
    passes = [place for place, count in enumerate(seen) if count == size]
    assert size == 80
    assert len(passes) == 4
    assert max(count for count in seen if count != size) <= 150 - size < size
    assert metrics["update/num_microbatches"] == 4  # two per step, and a prefix
    assert metrics["update/num_packed_tokens"] == sum(seen[passes[2] :])


def test_a_short_pass_includes_rows_without_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where launching a pass takes longer than running it, two passes become one, with the same weights."""
    samples = [
        replace(sample, reward=sample.reward * (sample.group % 2)) for sample in some_samples(4, prefix=80)
    ]
    results = []
    for short_tokens in (0, 4096):
        monkeypatch.setattr(
            "turnwise.training.update.trainer.Passes", partial(Passes, short_tokens=short_tokens)
        )
        trainer = new_trainer(recipe_of())
        metrics = trainer.update(samples, step=0).metrics
        results.append((metrics, trainer.policy.state()))
    (separate, weights), (together, same) = results
    assert (separate["update/num_microbatches"], together["update/num_microbatches"]) == (2, 1)
    assert_close(same, weights, tolerance=5e-5)
    assert together["gradient/norm"] == pytest.approx(separate["gradient/norm"], rel=1e-4)
    assert together["loss/total"] == pytest.approx(separate["loss/total"], abs=1e-6)


def test_a_pass_is_short_by_its_number_of_computed_tokens() -> None:
    samples = some_samples(2, prefix=80)
    policy = Policy(qwen3(), FULL)
    run = Passes(policy, tokens_per_microbatch=100_000).begin(samples)
    run.score(run.parts[0])
    num_packed = run.num_computed
    for short_tokens, is_short in ((num_packed, True), (num_packed - 1, False), (0, False)):
        passes = Passes(policy, tokens_per_microbatch=100_000, short_tokens=short_tokens)
        assert passes.are_short(samples, range(len(samples))) is is_short
    assert not Passes(policy, tokens_per_microbatch=100_000).are_short(samples, [0]), "not on a CPU"


# --- lifetime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["noise", "an optimizer step"])
def test_keys_of_earlier_weights_are_rejected(change: str) -> None:
    policy = Policy(qwen3(), FULL)
    run = begun(policy, relatives())
    loss_of(run.score(run.parts[0])).backward()
    if change == "noise":
        add_noise(policy)
    else:
        torch.optim.AdamW(policy.trainable.values(), foreach=True).step()
    with pytest.raises(AssertionError, match="of other weights"):
        run.score(run.parts[1])


@pytest.mark.parametrize("options", [{}, CHECKPOINTING], ids=["kept", "checkpointing"])
def test_tensors_of_a_pass_are_freed_with_it(options: dict[str, bool]) -> None:
    """The garbage collector does not find a cycle through an autograd graph."""
    policy = noisy_policy(llama, FULL.model_copy(update=options))
    kept: list[weakref.ref[Tensor]] = []
    policy.model.get_submodule("model.layers.1").register_forward_hook(
        lambda *call: kept.append(weakref.ref(call[2] if isinstance(call[2], Tensor) else call[2][0]))
    )
    run = begun(policy, relatives())
    loss_of(run.score(run.parts[0])).backward()
    run.backward()
    gc.collect()
    made_keys = [weakref.ref(pair) for pair in run._carried.trunk._made]  # type: ignore[union-attr]
    assert all(key() is not None for key in made_keys)
    del run
    gc.collect()
    assert [tensor() for tensor in [*made_keys, *kept]] == [None] * (len(made_keys) + len(kept))


def test_short_or_uncommon_prefixes_and_dropout_are_not_carried() -> None:
    short = [sample((GIVEN, [7] * MIN_CARRIED), (OWN, [number] * 20)) for number in range(1, 5)]
    long = [sample((GIVEN, [7] * (MIN_CARRIED + 1)), (OWN, [number] * 20)) for number in range(1, 5)]
    policy = Policy(qwen3(), LORA)
    seen = computed(policy)
    begun(policy, long, 110)
    assert seen == [MIN_CARRIED]
    begun(policy, short, 110)
    begun(policy, [*long, sample((GIVEN, [8, 9]), (OWN, [1]))], 110)
    begun(policy, long, 1000)
    Passes(policy, tokens_per_microbatch=110, is_shared=False).begin(long)
    assert seen == [MIN_CARRIED]


def test_a_measured_batch_keeps_the_order_of_its_rows() -> None:
    policy = noisy_policy(qwen3, LORA, value=ValueConfig(trunk="adapter"))
    mixed = random.Random(3).sample(relatives(), 9)
    passes = Passes(policy, tokens_per_microbatch=200)
    found = passes.measure(batch_of(mixed), with_values=True)
    with torch.no_grad():
        whole = policy.score(mixed, with_values=True)
    for column in ("logprobs_BT", "values_BT", "bootstrap_B"):
        assert (getattr(found, column) - getattr(whole, column)).abs().max() < 5e-5, column
