"""A micro-batch that does not fit: the update is repeated with smaller ones and has the same result."""

import logging
from typing import Any

import pytest
import torch

from tests.training.updates import (
    assert_close,
    different,
    frozen,
    gradients,
    limit,
    new_model,
    new_trainer,
    recipe_of,
    some_samples,
)
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import fine_tune
from turnwise.training.update.trainer import Trainer


def updated(tokens: int | None = None, **sections: Any) -> tuple[Trainer, dict[str, float], list[int]]:
    model, recipe = new_model(), recipe_of(**sections)
    seen = [] if tokens is None else limit(model, tokens)
    trainer = new_trainer(recipe, model=model)
    return trainer, trainer.update(some_samples(), step=0, imitation=some_samples()[:2]).metrics, seen


SECTIONS: dict[str, dict[str, Any]] = {
    "padded": {"update": {"shared_prefix": False}},
    "recomputed": {"policy": {"gradient_checkpointing": True}},
    "lora": {"policy": {"tuning": "lora", "lora_rank": 4}},
    "value": {"algorithm": {"advantage": "gae"}},
    "imitation": {"imitation": {"weight": 0.5}},
    "minibatches": {"update": {"num_minibatches": 2, "num_epochs": 2}},
    "reference": {"algorithm": {"kl": {"placement": "loss_k2"}}, "reference": {"kind": "frozen"}},
}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_update_equals_the_one_without_a_limit(name: str, caplog: pytest.LogCaptureFixture) -> None:
    sections = SECTIONS[name]
    free, metrics, _ = updated(**sections)
    with caplog.at_level(logging.WARNING):
        tight, tight_metrics, seen = updated(100, **sections)
    assert max(seen) > 100, "the limit was reached"
    assert min(seen) <= 100
    assert caplog.messages[0].startswith("out of memory: from now on ")
    assert_close(gradients(tight), gradients(free))
    ignored = ("time/", "update/num_microbatches", "update/num_packed_tokens", "memory/")
    for name, value in metrics.items():
        if not name.startswith(ignored):
            assert tight_metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_the_smaller_budget_is_kept_for_the_rest_of_the_run() -> None:
    trainer, _, seen = updated(100)
    first = len(seen)
    trainer.update(some_samples(), step=1)
    assert max(seen[first:]) <= 100


def test_one_sample_that_does_not_fit_ends_the_update_with_advice_and_changes_nothing() -> None:
    model = new_model()
    limit(model, 20)
    trainer = new_trainer(recipe_of(), model=model)
    before = frozen(trainer)
    with pytest.raises(torch.OutOfMemoryError, match="too many") as caught:
        trainer.update(some_samples(), step=0)
    assert "policy.gradient_checkpointing = true" in caught.value.__notes__[0]
    assert different(before, frozen(trainer)) == []


def test_supervised_steps_are_repeated_with_smaller_microbatches() -> None:
    recipe = recipe_of(sft={"num_epochs": 1, "samples_per_step": 12, "learning_rate": 1e-3})
    found = []
    for tokens in (10_000, 100):
        model = new_model()
        seen = limit(model, tokens)
        policy = Policy(model, recipe.policy)
        [step] = fine_tune(policy, some_samples(), recipe)
        found.append((step.loss, step.gradient_norm, len(seen)))
    assert found[1][:2] == pytest.approx(found[0][:2], rel=1e-5)
    assert found[1][2] > found[0][2]


def test_a_resumed_trainer_keeps_the_smaller_budget() -> None:
    trainer, _, _ = updated(100)
    model = new_model()
    seen = limit(model, 10_000)
    resumed = new_trainer(recipe_of(), model=model)
    resumed.restore(trainer.tensors(), trainer.facts())
    assert resumed.facts()["lowered_tokens"] == trainer.facts()["lowered_tokens"] < 16_384
    resumed.update(some_samples(), step=1)
    assert max(seen) <= 100
    free, _, _ = updated()
    assert free.facts()["lowered_tokens"] is None


def test_an_optimizer_without_room_for_all_tensors_at_once_takes_the_same_step_one_by_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free, _, _ = updated()
    real = torch.empty

    def refuse(*size: Any, **options: Any) -> torch.Tensor:
        if len(size) == 1 and isinstance(size[0], int) and size[0] > 10_000:
            raise torch.OutOfMemoryError(f"{size[0]} floats are too many")
        return real(*size, **options)

    monkeypatch.setattr(torch, "empty", refuse)
    with caplog.at_level(logging.WARNING):
        tight, _, _ = updated()
    assert any("tensor by tensor" in message for message in caplog.messages)
    weights = free.policy.weights()
    for name, weight in tight.policy.weights().items():
        assert torch.allclose(weight, weights[name], rtol=1e-6, atol=1e-7), name
