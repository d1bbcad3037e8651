"""AdamW by its formula, clipped by norm, in fp32 for weights of any type; the learning-rate schedule."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from turnwise.training.update.optimizer import Optimizer, learning_rate, scale_of


@pytest.mark.parametrize(
    ("schedule", "warmup", "num_steps", "lowest", "expected"),
    [
        ("constant", 4, 10, 0.0, {0: 0.5, 1: 1.0, 2: 1.5, 3: 2.0, 4: 2.0, 9: 2.0}),
        ("linear", 0, 4, 0.0, {0: 2.0, 1: 1.5, 2: 1.0, 3: 0.5, 4: 0.0, 5: 0.0}),
        ("linear", 2, 6, 0.0, {1: 2.0, 2: 2.0, 4: 1.0, 6: 0.0}),
        ("linear", 5, 5, 0.0, {3: 1.6, 5: 2.0}),  # only warm-up: no division by 0
        ("cosine", 0, 4, 0.0, {0: 2.0, 1: 1 + math.cos(math.pi / 4), 2: 1.0, 4: 0.0}),
        ("cosine", 0, 4, 0.1, {4: 0.2}),
    ],
)
def test_rates_rise_to_the_peak_of_2_and_follow_their_schedule_down(
    schedule: str, warmup: int, num_steps: int, lowest: float, expected: dict[int, float]
) -> None:
    options = {"schedule": schedule, "warmup_steps": warmup, "num_steps": num_steps, "lowest": lowest}
    assert {step: learning_rate(2.0, step, **options) for step in expected} == pytest.approx(expected)


def parameters(dtype: torch.dtype = torch.float32) -> dict[str, Parameter]:
    values = {"matrix": [[1.0, -2.0], [0.5, 4.0]], "bias": [3.0, -1.0]}
    return {name: Parameter(torch.tensor(value, dtype=dtype)) for name, value in values.items()}


def slope(named: dict[str, Parameter], size: float) -> Tensor:
    """A loss whose gradient is `size` everywhere."""
    return torch.stack([size * parameter.sum() for parameter in named.values()]).sum()


def test_steps_are_those_of_adamw_with_decay_on_matrices_only() -> None:
    own = parameters()
    optimizer = Optimizer(own, {}, weight_decay=0.1, max_gradient_norm=100.0, epsilon=1e-8)
    expected = {name: parameter.detach().double() for name, parameter in own.items()}
    first, second = 0.0, 0.0
    for count, size in enumerate((0.3, -0.2, 0.7), start=1):
        optimizer.learn(slope(own, size))
        optimizer.step(optimizer.norms(), policy_rate=0.05)
        first, second = 0.9 * first + 0.1 * size, 0.999 * second + 0.001 * size**2
        change = first / (1 - 0.9**count) / (math.sqrt(second / (1 - 0.999**count)) + 1e-8)
        expected["matrix"] = expected["matrix"] * (1 - 0.05 * 0.1) - 0.05 * change
        expected["bias"] = expected["bias"] - 0.05 * change
    for name, parameter in own.items():
        torch.testing.assert_close(parameter.detach().double(), expected[name], rtol=0, atol=1e-6)
        assert parameter.grad is None


def test_policy_and_value_have_norms_and_learning_rates_of_their_own() -> None:
    """AdamW's first moment is 0.1 times the clipped gradient."""
    policy, value = parameters(), {"head": Parameter(torch.zeros(4))}
    optimizer = Optimizer(policy, value, max_gradient_norm=1.0)
    optimizer.learn(slope(policy, 0.1) + slope(value, 100.0))
    norms = optimizer.norms()
    assert norms.policy == pytest.approx(0.1 * math.sqrt(6))
    assert norms.value == pytest.approx(200.0)
    before = policy["bias"].detach().clone()
    optimizer.step(norms, policy_rate=0.01, value_rate=0.5)
    moments = optimizer.tensors()
    torch.testing.assert_close(moments["bias/exp_avg"], torch.full((2,), 0.01))  # below the norm: unclipped
    torch.testing.assert_close(moments["head/exp_avg"], torch.full((4,), 0.05))  # entries of 0.5: a norm of 1
    torch.testing.assert_close(policy["bias"].detach(), before - 0.01, rtol=0, atol=1e-5)
    torch.testing.assert_close(value["head"].detach(), torch.full((4,), -0.5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_makes_its_norm_not_finite(bad: float) -> None:
    policy, value = parameters(), {"head": Parameter(torch.zeros(4))}
    optimizer = Optimizer(policy, value)
    optimizer.learn(slope(policy, 0.1) + slope(value, 0.1))
    assert optimizer.norms().is_finite
    assert value["head"].grad is not None
    value["head"].grad[1] = bad
    assert not optimizer.norms().is_finite


def test_gradients_of_microbatches_add_up_in_fp32_for_weights_of_16_bits() -> None:
    """256 plus 1: bf16 cannot represent 257."""
    own = parameters(torch.bfloat16)
    optimizer = Optimizer(own, {}, max_gradient_norm=1e9)
    for size in (256.0, 1.0):
        optimizer.learn(slope(own, size))
    assert optimizer.norms().policy == pytest.approx(257 * math.sqrt(6))


def test_weights_of_16_bits_move_by_steps_below_their_resolution() -> None:
    """Steps of 0.5% of the last bit of a bf16 weight: without an fp32 twin it would never move."""
    own = parameters(torch.bfloat16)
    optimizer = Optimizer(own, {})
    before = own["matrix"].detach().clone()
    for _ in range(100):
        optimizer.learn(slope(own, 1.0))
        optimizer.step(optimizer.norms(), policy_rate=2e-4)
    assert own["matrix"].dtype is torch.bfloat16
    torch.testing.assert_close(own["matrix"].detach().float(), before.float() - 0.02, rtol=0, atol=8e-3)
    assert (own["matrix"] != before)[0, 0]


def test_a_loss_in_fp16_is_scaled_up_so_that_its_gradient_does_not_underflow() -> None:
    """The smallest number of fp16 is 6e-8; a gradient of 1e-8 survives if it is scaled."""

    def moment(scale: float) -> Tensor:
        own = {"bias": Parameter(torch.ones(4))}
        optimizer = Optimizer(own, {}, scale=scale)
        optimizer.learn(1e-8 * own["bias"].half().float().sum())
        norms = optimizer.norms()
        optimizer.step(norms, policy_rate=0.0)
        found = optimizer.tensors()["bias/exp_avg"]
        assert norms.policy == pytest.approx(10 * float(found.norm()), rel=1e-4)
        return found

    assert scale_of(torch.bfloat16) == scale_of(torch.float32) == 1.0
    assert (moment(1.0) == 0).all()
    torch.testing.assert_close(moment(scale_of(torch.float16)), torch.full((4,), 1e-9), rtol=1e-2, atol=0)


def test_clipping_uses_the_norm_of_the_unscaled_gradient() -> None:
    own = {"bias": Parameter(torch.ones(4))}
    optimizer = Optimizer(own, {}, scale=1024.0, max_gradient_norm=1.0)
    optimizer.learn(slope(own, 5.0))
    assert optimizer.norms().policy == pytest.approx(10.0)
    optimizer.step(optimizer.norms(), policy_rate=0.0)
    torch.testing.assert_close(optimizer.tensors()["bias/exp_avg"], torch.full((4,), 0.05))
