"""What a trainer saves is all it needs: restored, it goes on bit for bit."""

import json

import pytest
import torch

from tests.training.updates import (
    different,
    frozen,
    new_model,
    new_trainer,
    recipe_of,
    some_samples,
    spoiled,
)


@pytest.mark.parametrize("tuning", ["lora", "full"])
def test_a_restored_trainer_goes_on_bit_for_bit(tuning: str) -> None:
    """With all there is to forget: value head, moving reference, adaptive coefficient, counters, schedule."""
    recipe = recipe_of(
        policy={"tuning": tuning, "lora_rank": 4},
        algorithm={"advantage": "gae", "kl": {"placement": "loss_k3", "target": 1e-3}},
        reference={"kind": "ema", "every": 2, "decay": 0.5},
        optimizer={"schedule": "cosine", "warmup_steps": 2},
        update={"num_minibatches": 2},
        run={"num_steps": 6},
    )
    straight = new_trainer(recipe)
    for step in range(5):
        samples = some_samples(seed=step)
        straight.update(spoiled(samples) if step == 1 else samples, step=step)
        if step == 2:
            tensors, facts = frozen(straight), json.loads(json.dumps(straight.facts()))
    resumed = new_trainer(recipe)
    resumed.restore(tensors, facts)
    for step in (3, 4):
        resumed.update(some_samples(seed=step), step=step)
    assert different(straight.tensors(), resumed.tensors()) == []
    assert straight.facts() == resumed.facts()
    assert resumed.facts()["num_not_a_number"] > 0
    for part in ("policy/", "value/", "optimizer/", "reference/"):
        changed = [
            name
            for name in tensors
            if name.startswith(part) and not torch.equal(tensors[name], straight.tensors()[name])
        ]
        assert changed, f"nothing under {part} has moved: the test shows nothing"


def test_bf16_weights_learn_from_steps_far_below_their_resolution() -> None:
    sections = {"optimizer": {"learning_rate": 1e-5, "epsilon": 1e-8}}
    trainer = new_trainer(recipe_of(**sections), model=new_model().to(torch.bfloat16))
    for step in range(3):
        assert trainer.update(some_samples(), step=step).skipped == ""
    twins = [tensor for name, tensor in trainer.tensors().items() if name.endswith("/twin")]
    assert {tensor.dtype for tensor in twins} == {torch.float32}
    moved = [float((twin - twin.to(torch.bfloat16)).abs().max()) for twin in twins]
    assert max(moved) > 0
    again = new_trainer(recipe_of(**sections), model=new_model().to(torch.bfloat16))
    again.restore(frozen(trainer), trainer.facts())
    trainer.update(some_samples(), step=3)
    again.update(some_samples(), step=3)
    assert different(trainer.tensors(), again.tensors()) == []
