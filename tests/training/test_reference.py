"""References: where each stands, how it moves, that it is checked, and that a broken one is noticed."""

from typing import Any

import pytest
import torch

from tests.training.updates import new_model, new_trainer, recipe_of, some_samples
from turnwise.config import PolicyConfig, ReferenceConfig
from turnwise.training.model import reference as module
from turnwise.training.model.policy import Policy
from turnwise.training.model.reference import Reference
from turnwise.training.packing.batch import batch_of
from turnwise.training.update.scoring import Passes


def policy_of(tuning: str, dtype: torch.dtype = torch.float32) -> Policy:
    config = PolicyConfig.model_validate({"tuning": tuning, "lora_rank": 4})
    return Policy(new_model().to(dtype), config, device="cpu")


def push(policy: Policy, size: float = 0.1) -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in policy.trainable.values():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))


def logprobs(policy: Policy) -> torch.Tensor:
    with torch.no_grad():
        return policy.score(some_samples()).logprobs_BT


def reference_logprobs(policy: Policy, reference: Reference) -> torch.Tensor:
    batch = batch_of(some_samples())
    return Passes(policy, tokens_per_microbatch=100_000).measure_reference(batch, reference)


BOTH = pytest.mark.parametrize("tuning", ["lora", "full"])


@BOTH
@pytest.mark.parametrize("kind", ["frozen", "hard", "ema"])
def test_a_reference_starts_where_the_policy_does_and_does_not_follow_unasked(tuning: str, kind: str) -> None:
    policy = policy_of(tuning)
    reference = Reference(policy, ReferenceConfig(kind=kind))
    start = logprobs(policy)
    assert torch.equal(reference_logprobs(policy, reference), start)
    push(policy)
    moved = logprobs(policy)
    assert (moved - start).abs().max() > 0.01
    assert torch.equal(reference_logprobs(policy, reference), start)
    assert torch.equal(logprobs(policy), moved)  # asking the reference leaves no trace in the policy
    assert not reference_logprobs(policy, reference).requires_grad


def test_the_frozen_reference_of_a_lora_policy_keeps_no_tensor() -> None:
    assert Reference(policy_of("lora"), ReferenceConfig(kind="frozen")).tensors() == {}


def test_a_moving_reference_of_a_lora_policy_keeps_the_adapter_alone() -> None:
    policy = policy_of("lora")
    kept = Reference(policy, ReferenceConfig(kind="ema")).tensors()
    assert kept.keys() == policy.trainable.keys()
    assert all("lora_" in name for name in kept)


@BOTH
def test_hard_copies_every_so_many_updates_and_then_no_tensor_differs(tuning: str) -> None:
    policy = policy_of(tuning)
    reference = Reference(policy, ReferenceConfig(kind="hard", every=3))
    start = logprobs(policy)
    push(policy)
    assert reference.follow(1) == reference.follow(2) == {"reference/updated": 0.0}
    assert torch.equal(reference_logprobs(policy, reference), start)
    found = reference.follow(3)
    assert found == {
        "reference/updated": 1.0,
        "reference/moved": 1.0,
        "reference/num_wrong": 0.0,
        "reference/max_error": 0.0,
    }
    assert torch.equal(reference_logprobs(policy, reference), logprobs(policy))


@BOTH
def test_ema_follows_its_formula(tuning: str) -> None:
    policy = policy_of(tuning)
    reference = Reference(policy, ReferenceConfig(kind="ema", decay=0.9))
    expected = {name: tensor.detach().double() for name, tensor in policy.trainable.items()}
    for number in range(1, 4):
        push(policy)
        found = reference.follow(number)
        assert found["reference/moved"] == 1.0
        assert found["reference/num_wrong"] == 0.0
        assert found["reference/max_error"] < 1e-6
        for name, tensor in policy.trainable.items():
            expected[name] = 0.9 * expected[name] + 0.1 * tensor.detach().double()
    for name, tensor in reference.tensors().items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=0, atol=1e-6)


def test_an_average_of_16_bit_weights_is_kept_in_32() -> None:
    policy = policy_of("full", torch.bfloat16)
    reference = Reference(policy, ReferenceConfig(kind="ema", decay=0.999))
    push(policy, 0.01)
    found = reference.follow(1)
    assert found["reference/moved"] == 1.0
    assert {tensor.dtype for tensor in reference.tensors().values()} == {torch.float32}
    assert reference_logprobs(policy, reference).isfinite().all()


def test_a_reference_that_had_nowhere_to_go_is_not_called_stuck() -> None:
    found = Reference(policy_of("full"), ReferenceConfig(kind="hard")).follow(1)
    assert found["reference/moved"] == 1.0
    assert found["reference/num_wrong"] == 0.0


@pytest.mark.parametrize("kind", ["hard", "ema"])
def test_a_reference_that_stays_behind_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of("full")
    reference = Reference(policy, ReferenceConfig(kind=kind))
    monkeypatch.setattr(Reference, "_move", lambda self: None)
    push(policy)
    found = reference.follow(1)
    assert found["reference/moved"] == 0.0
    assert found["reference/num_wrong"] > 0


def test_an_average_with_its_shares_swapped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of("full")
    reference = Reference(policy, ReferenceConfig(kind="ema", decay=0.9))

    def swapped(reference: torch.Tensor, current: torch.Tensor, *, decay: float) -> torch.Tensor:
        return (1 - decay) * reference + decay * current

    monkeypatch.setattr(module, "ema", swapped)
    push(policy)
    found = reference.follow(1)
    assert found["reference/moved"] == 1.0
    assert found["reference/num_wrong"] == len(policy.trainable)


def test_a_copy_that_forgets_one_tensor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of("full")
    reference = Reference(policy, ReferenceConfig(kind="hard"))
    forgotten = next(iter(policy.trainable))

    def careless(self: Any) -> None:
        for name, tensor in policy.trainable.items():
            if name != forgotten:
                self._kept[name].copy_(tensor)

    monkeypatch.setattr(Reference, "_move", careless)
    push(policy)
    found = reference.follow(1)
    assert found["reference/num_wrong"] == 1.0
    assert 0.0 < found["reference/moved"] < 1.0


def test_an_adapter_that_does_nothing_yet_has_a_kl_of_exactly_zero() -> None:
    sections: dict[str, Any] = {
        "policy": {"tuning": "lora", "lora_rank": 4},
        "algorithm": {"kl": {"placement": "loss_k3"}},
        "reference": {"kind": "frozen"},
    }
    trainer = new_trainer(recipe_of(**sections))
    assert trainer.update(some_samples(), step=0).metrics["kl/reference"] == 0.0
    assert trainer.update(some_samples(), step=1).metrics["kl/reference"] > 0.0


def test_a_reference_moves_with_updates_that_stepped_not_with_those_left_out() -> None:
    trainer = new_trainer(recipe_of(reference={"kind": "hard", "every": 2}))
    assert trainer.update(some_samples(), step=0).metrics["reference/updated"] == 0.0
    assert "reference/updated" not in trainer.update((), step=1).metrics
    assert trainer.update(some_samples(), step=2).metrics["reference/updated"] == 1.0
    assert trainer.update(some_samples(), step=3).metrics["reference/updated"] == 0.0
