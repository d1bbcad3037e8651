"""References: their start, how they move, and that a reference that moves wrongly is noticed."""

from typing import Any

import pytest
import torch

from tests.training.policies import add_noise
from tests.training.updates import new_model, new_trainer, recipe_of, some_samples
from turnwise.config import PolicyConfig, ReferenceConfig
from turnwise.training.packing.batch import batch_of
from turnwise.training.policy import reference as module
from turnwise.training.policy.policy import Policy
from turnwise.training.policy.reference import Reference
from turnwise.training.update.scoring import Passes

both_tunings = pytest.mark.parametrize("tuning", ["lora", "full"])


def new_reference(
    kind: str, tuning: str = "full", dtype: torch.dtype = torch.float32, **options: Any
) -> tuple[Policy, Reference]:
    config = PolicyConfig.model_validate({"tuning": tuning, "lora_rank": 4})
    policy = Policy(new_model().to(dtype), config, device="cpu")
    return policy, Reference(policy, ReferenceConfig.model_validate({"kind": kind, **options}))


@torch.no_grad()
def logprobs(policy: Policy) -> torch.Tensor:
    return policy.score(some_samples()).logprobs_BT


def reference_logprobs(policy: Policy, reference: Reference) -> torch.Tensor:
    batch = batch_of(some_samples())
    return Passes(policy, tokens_per_microbatch=100_000).measure_reference(batch, reference)


@both_tunings
@pytest.mark.parametrize("kind", ["frozen", "hard", "ema"])
def test_a_reference_starts_as_the_policy_and_stays_there(tuning: str, kind: str) -> None:
    policy, reference = new_reference(kind, tuning)
    start = logprobs(policy)
    assert torch.equal(reference_logprobs(policy, reference), start)
    add_noise(policy, 0.1)
    moved = logprobs(policy)
    assert (moved - start).abs().max() > 0.01
    assert torch.equal(reference_logprobs(policy, reference), start)
    assert torch.equal(logprobs(policy), moved), "scoring by the reference does not change the policy"
    assert not reference_logprobs(policy, reference).requires_grad


def test_the_reference_of_a_lora_policy_keeps_at_most_an_adapter() -> None:
    assert new_reference("frozen", "lora")[1].tensors() == {}
    policy, reference = new_reference("ema", "lora")
    assert reference.tensors().keys() == policy.trainable.keys()
    assert all("lora_" in name for name in reference.tensors())


@both_tunings
def test_a_hard_reference_is_copied_every_third_update_and_then_no_tensor_differs(tuning: str) -> None:
    policy, reference = new_reference("hard", tuning, every=3)
    start = logprobs(policy)
    add_noise(policy, 0.1)
    assert reference.follow(1) == reference.follow(2) == {"reference/updated": 0.0}
    assert torch.equal(reference_logprobs(policy, reference), start)
    assert reference.follow(3) == {
        "reference/updated": 1.0,
        "reference/moved": 1.0,
        "reference/num_wrong": 0.0,
        "reference/max_error": 0.0,
    }
    assert torch.equal(reference_logprobs(policy, reference), logprobs(policy))


@both_tunings
def test_ema_follows_its_formula(tuning: str) -> None:
    policy, reference = new_reference("ema", tuning, decay=0.9)
    expected = {name: tensor.detach().double() for name, tensor in policy.trainable.items()}
    for number in range(1, 4):
        add_noise(policy, 0.1)
        found = reference.follow(number)
        assert (found["reference/moved"], found["reference/num_wrong"]) == (1.0, 0.0)
        assert found["reference/max_error"] < 1e-6
        for name, tensor in policy.trainable.items():
            expected[name] = 0.9 * expected[name] + 0.1 * tensor.detach().double()
    for name, tensor in reference.tensors().items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=0, atol=1e-6)


def test_an_average_of_16_bit_weights_is_kept_in_32() -> None:
    policy, reference = new_reference("ema", dtype=torch.bfloat16, decay=0.999)
    add_noise(policy, 0.01)
    assert reference.follow(1)["reference/moved"] == 1.0
    assert {tensor.dtype for tensor in reference.tensors().values()} == {torch.float32}
    assert reference_logprobs(policy, reference).isfinite().all()


def careless(self: Any) -> None:
    """Copy all tensors but the first."""
    for name in list(self._kept)[1:]:
        self._kept[name].copy_(self._policy.trainable[name])


def swapped(reference: torch.Tensor, current: torch.Tensor, *, decay: float) -> torch.Tensor:
    return (1 - decay) * reference + decay * current


@pytest.mark.parametrize(
    ("kind", "mistake", "moved", "num_wrong"),
    [
        ("hard", {}, 1.0, 0),
        ("hard", {"_move": lambda self: None}, 0.0, "all"),
        ("ema", {"_move": lambda self: None}, 0.0, "all"),
        ("ema", {"ema": swapped}, 1.0, "all"),
        ("hard", {"_move": careless}, None, 1),
    ],
    ids=["no mistake", "hard stays behind", "ema stays behind", "swapped shares", "a forgotten tensor"],
)
def test_a_reference_that_moves_wrongly_is_noticed(
    kind: str, mistake: dict[str, Any], moved: float | None, num_wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, reference = new_reference(kind, decay=0.9)
    for name, function in mistake.items():
        monkeypatch.setattr(module if name == "ema" else Reference, name, function)
    add_noise(policy, 0.1)
    found = reference.follow(1)
    assert found["reference/num_wrong"] == (len(policy.trainable) if num_wrong == "all" else num_wrong)
    assert 0.0 < found["reference/moved"] < 1.0 if moved is None else found["reference/moved"] == moved


def test_a_reference_equal_to_its_policy_counts_as_moved() -> None:
    found = new_reference("hard")[1].follow(1)
    assert (found["reference/moved"], found["reference/num_wrong"]) == (1.0, 0.0)


def test_a_new_adapter_has_a_kl_of_exactly_zero() -> None:
    sections: dict[str, Any] = {
        "policy": {"tuning": "lora", "lora_rank": 4},
        "algorithm": {"kl": {"placement": "loss_k3"}},
        "reference": {"kind": "frozen"},
    }
    trainer = new_trainer(recipe_of(**sections))
    assert trainer.update(some_samples(), step=0).metrics["kl/reference"] == 0.0
    assert trainer.update(some_samples(), step=1).metrics["kl/reference"] > 0.0


def test_a_reference_moves_with_updates_that_stepped_and_not_with_skipped_ones() -> None:
    trainer = new_trainer(recipe_of(reference={"kind": "hard", "every": 2}))
    assert trainer.update(some_samples(), step=0).metrics["reference/updated"] == 0.0
    assert "reference/updated" not in trainer.update((), step=1).metrics
    assert trainer.update(some_samples(), step=2).metrics["reference/updated"] == 1.0
    assert trainer.update(some_samples(), step=3).metrics["reference/updated"] == 0.0
