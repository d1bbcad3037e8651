"""A prefix that a whole pass shares is run once, and nobody can tell by the scores or the gradients."""

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
from tests.training.drawn import GIVEN, MODELS, OWN, family, gpt_neox, plain_rows, sample
from tests.training.policies import CONFIGS, FULL, LORA, apart, gradients, loss_of, made, pass_gradients, stir
from tests.training.updates import assert_close, new_trainer, recipe_of, some_samples
from turnwise.config.training import PolicyConfig, ValueConfig
from turnwise.training.kernels.prefix import Prefix
from turnwise.training.model.policy import Policy
from turnwise.training.packing.batch import batch_of
from turnwise.training.packing.layout import common_prefix
from turnwise.training.packing.samples import Sample
from turnwise.training.update.scoring import MIN_CARRIED, Pass, Passes

CHECKPOINTING = {"gradient_checkpointing": True}


def relatives() -> list[Sample]:
    """Two groups that begin alike, members that share more, and one sample twice."""
    samples = family(prefix=90)
    return [*samples[:8], samples[9]]


def begun(policy: Policy, samples: Sequence[Sample], tokens: int = 200, **options: Any) -> Pass:
    return Passes(policy, tokens_per_microbatch=tokens).begin(samples, **options)


def computed(policy: Policy) -> list[int]:
    """How many tokens each forward pass goes over from now on."""
    seen: list[int] = []
    policy.model.get_input_embeddings().register_forward_hook(lambda *call: seen.append(call[1][0].numel()))
    return seen


def test_the_samples_of_these_tests_are_carried() -> None:
    assert len(common_prefix(relatives())) == 90 >= MIN_CARRIED
    policy = Policy(qwen3(), FULL)
    assert [len(begun(policy, relatives(), tokens).parts) for tokens in (1, 200, 350, 999)] == [9, 5, 2, 1]


# --- the same scores and gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_scores_are_those_of_each_sample_alone(make: Callable[[], Any], config: PolicyConfig) -> None:
    policy = made(make, config)
    plain = make()
    plain.load_state_dict(policy.weights(), strict=False)
    logprobs_BT, entropy_BT = plain_rows(plain, relatives())
    with torch.no_grad():
        run = begun(policy, relatives())
        for part in run.parts:
            scores = run.score(part)
            width = scores.mask_BT.shape[1]
            assert (scores.logprobs_BT - logprobs_BT[part, :width]).abs().max() < 5e-5
            assert (scores.entropy_BT - entropy_BT[part, :width]).abs().max() < 5e-5


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_gradients_are_those_of_each_sample_alone(make: Callable[[], Any], config: PolicyConfig) -> None:
    policy = made(lambda: make().double(), config, value=ValueConfig())
    alone = gradients(policy, [[one] for one in relatives()], is_shared=False, with_values=True)
    carried = pass_gradients(policy, relatives(), 200, with_values=True)
    # norms are in fp32 in all but gpt_neox, and so is the value head
    exact = {name: tensor for name, tensor in alone.items() if not name.startswith("value")}
    assert apart(exact, {name: carried[name] for name in exact}) < (1e-10 if make is gpt_neox else 2e-6)
    assert apart(alone, carried) < 1e-5


@pytest.mark.parametrize("trunk", ["detached", "adapter"])
@pytest.mark.parametrize("options", [{}, CHECKPOINTING], ids=["kept", "checkpointing"])
def test_values_and_checkpoints_know_nothing_of_order_or_budget(trunk: Any, options: dict[str, bool]) -> None:
    policy = made(qwen3, LORA.model_copy(update=options), value=ValueConfig(trunk=trunk))
    whole = gradients(policy, [relatives()], with_values=True)
    assert all((tensor != 0).any() for tensor in whole.values())
    for number, tokens in enumerate((1, 200, 350)):
        mixed = random.Random(number).sample(relatives(), 9)
        assert apart(whole, pass_gradients(policy, mixed, tokens, with_values=True)) < 1e-4


def test_checkpoints_of_full_tuning_change_no_gradient() -> None:
    policy = made(qwen3, FULL.model_copy(update=CHECKPOINTING))
    whole = gradients(policy, [relatives()])
    calls = []
    policy.model.get_submodule("model.layers.1.mlp").register_forward_pre_hook(lambda *_: calls.append(1))
    assert apart(whole, pass_gradients(policy, relatives(), 200)) < 1e-4
    assert len(calls) == 2 * 6  # five micro-batches and the prefix, each layer twice


def test_adapters_that_leave_keys_alone_are_learned_all_the_same() -> None:
    """The first layer's keys and values have no gradient then, those of later layers do."""
    policy = made(qwen3, LORA.model_copy(update={"lora_targets": ("q_proj", "down_proj")}))
    whole = gradients(policy, [relatives()])
    assert apart(whole, pass_gradients(policy, relatives(), 200)) < 1e-4


def test_half_precision_is_as_near_as_it_is_without_carrying() -> None:
    exact = gradients(made(lambda: qwen3().bfloat16().double(), FULL), [relatives()])
    policy = made(lambda: qwen3().bfloat16(), FULL)
    with torch.no_grad():
        for name, parameter in made(lambda: qwen3().bfloat16().double(), FULL).trainable.items():
            policy.trainable[name].copy_(parameter)

    def off(found: dict[str, Tensor]) -> float:
        return sum(float((found[name].double() - exact[name]).norm() / exact[name].norm()) for name in exact)

    assert off(pass_gradients(policy, relatives(), 1)) < 1.2 * off(gradients(policy, [relatives()]))


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


def test_other_tensors_stand_in_for_those_that_learn_and_the_base_for_its_adapter() -> None:
    for config in CONFIGS.values():
        policy = Policy(qwen3(), config)
        before = {name: parameter.detach().clone() for name, parameter in policy.trainable.items()}
        stir(policy)
        choices: list[dict[str, Any]] = [{"parameters": before}]
        choices += [{"adapter": "base"}] if policy.is_lora else []
        with torch.no_grad():
            for choice in choices:
                whole = policy.score(relatives(), **choice).logprobs_BT
                moved = policy.score(relatives()).logprobs_BT
                run = begun(policy, relatives(), **choice)
                for part in run.parts:
                    logprobs_BT = run.score(part).logprobs_BT
                    assert (logprobs_BT - whole[part, : logprobs_BT.shape[1]]).abs().max() < 5e-5
                    assert (logprobs_BT - moved[part, : logprobs_BT.shape[1]]).abs().max() > 0.01


# --- the trainer -------------------------------------------------------------------------------------------

KL = {"algorithm": {"kl": {"placement": "loss_k2", "coefficient": 0.1}, "entropy_bonus": 0.01}}
ADAPTED = {"policy": {"tuning": "lora", "lora_rank": 4, "lora_alpha": 8}}
CHOICES: dict[str, dict[str, Any]] = {
    "full": {},
    "full, frozen reference": {**KL, "reference": {"kind": "frozen"}},
    "full, ema reference": {**KL, "reference": {"kind": "ema", "decay": 0.5}},
    "lora": ADAPTED,
    "lora, frozen reference": {**ADAPTED, **KL, "reference": {"kind": "frozen"}},
    "lora, hard reference": {**ADAPTED, **KL, "reference": {"kind": "hard"}},
    "full, values": {"algorithm": {"advantage": "gae"}},
    "lora, values": {**ADAPTED, "algorithm": {"advantage": "gae"}, "value": {"trunk": "adapter"}},
    "ratio bounds": {"algorithm": {"min_ratio": 0.5, "max_ratio": 2.0}},
    "checkpointing": {"policy": {"tuning": "full", **CHECKPOINTING}},
    "imitation": {"imitation": {"weight": 0.5}},
}


def learned(sections: dict[str, Any], tokens: int, *, shared_prefix: bool = True) -> dict[str, Tensor]:
    """What two updates of four optimizer steps each come to: any key that stayed behind would show."""
    update = {"num_minibatches": 2, "num_epochs": 2}
    update |= {"tokens_per_microbatch": tokens, "shared_prefix": shared_prefix}
    trainer = new_trainer(recipe_of(sections, update=update))
    demonstrations = some_samples(1, seed=7, prefix=80)
    for step in range(2):
        samples = some_samples(4, seed=step, prefix=80)
        assert trainer.update(samples, step=step, imitation=demonstrations).skipped == ""
    return trainer.policy.state()


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_many_steps_lead_to_the_same_weights_whatever_the_budget(choice: dict[str, Any]) -> None:
    plain = learned(choice, 100_000, shared_prefix=False)
    for tokens in (1, 150):
        assert_close(learned(choice, tokens), plain, tolerance=5e-5)


def test_every_pass_computes_the_prefix_once_and_every_step_anew() -> None:
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
    assert metrics["update/num_microbatches"] == 4  # two a step, one prefix
    assert metrics["update/num_packed_tokens"] == sum(seen[passes[2] :])


def test_rows_without_a_gradient_go_on_from_the_same_prefix() -> None:
    samples = some_samples(2, prefix=80)
    policy = Policy(qwen3(), FULL)
    seen = computed(policy)
    run = Passes(policy, tokens_per_microbatch=100_000).begin(samples, range(4), range(4, 8))
    assert [set(part) for part in run.parts] == [set(range(4)), set(range(4, 8))]
    loss_of(run.score(run.parts[0])).backward()
    with torch.no_grad():
        run.score(run.parts[1])
    run.backward()
    assert seen[0] == len(common_prefix(samples))
    assert sum(seen) == run.num_computed


def test_a_short_pass_takes_rows_without_a_gradient_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pass takes longer to be told of than to run: two become one, and the weights are the same."""
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
    (apart, weights), (together, same) = results
    assert (apart["update/num_microbatches"], together["update/num_microbatches"]) == (2, 1)
    assert_close(same, weights, tolerance=5e-5)
    assert together["gradient/norm"] == pytest.approx(apart["gradient/norm"], rel=1e-4)
    assert together["loss/total"] == pytest.approx(apart["loss/total"], abs=1e-6)


def test_what_is_short_is_a_matter_of_computed_tokens() -> None:
    samples = some_samples(2, prefix=80)
    policy = Policy(qwen3(), FULL)
    run = Passes(policy, tokens_per_microbatch=100_000).begin(samples)
    run.score(run.parts[0])
    num_packed = run.num_computed
    for short_tokens, is_short in ((num_packed, True), (num_packed - 1, False), (0, False)):
        passes = Passes(policy, tokens_per_microbatch=100_000, short_tokens=short_tokens)
        assert passes.are_short(samples, range(len(samples))) is is_short
    assert not Passes(policy, tokens_per_microbatch=100_000).are_short(samples, [0]), "not on a CPU"


# --- when, and for how long --------------------------------------------------------------------------------


def test_keys_of_weights_that_have_changed_are_refused() -> None:
    policy = Policy(qwen3(), LORA)
    run = begun(policy, relatives())
    run.score(run.parts[0])
    stir(policy)
    with pytest.raises(AssertionError, match="of other weights"):
        run.score(run.parts[1])


def test_an_optimizer_step_counts_as_a_change() -> None:
    policy = Policy(qwen3(), FULL)
    run = begun(policy, relatives())
    loss_of(run.score(run.parts[0])).backward()
    torch.optim.AdamW(policy.trainable.values(), foreach=True).step()
    with pytest.raises(AssertionError, match="of other weights"):
        run.score(run.parts[1])


@pytest.mark.parametrize("options", [{}, CHECKPOINTING], ids=["kept", "checkpointing"])
def test_nothing_of_a_pass_outlives_it(options: dict[str, bool]) -> None:
    """A cycle through a graph is one that no collector sees."""
    policy = made(llama, FULL.model_copy(update=options))
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


def test_what_does_not_pay_or_cannot_be_is_not_carried() -> None:
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


def test_a_whole_measured_batch_is_in_its_rows_order() -> None:
    policy = made(qwen3, LORA, value=ValueConfig(trunk="adapter"))
    mixed = random.Random(3).sample(relatives(), 9)
    passes = Passes(policy, tokens_per_microbatch=200)
    found = passes.measure(batch_of(mixed), with_values=True)
    with torch.no_grad():
        whole = policy.score(mixed, with_values=True)
    assert (found.logprobs_BT - whole.logprobs_BT).abs().max() < 5e-5
    assert found.values_BT is not None
    assert whole.values_BT is not None
    assert (found.values_BT - whole.values_BT).abs().max() < 5e-5
    assert found.bootstrap_B is not None
    assert (found.bootstrap_B - whole.bootstrap_B).abs().max() < 5e-5
