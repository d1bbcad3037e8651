"""AdamW as written down, clipped by norm, in fp32 whatever the weights are; rates by the step's number."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from turnwise.training.update.optimizer import Optimizer, learning_rate, scale_of


def rate(step: int, schedule: str, warmup: int = 0, num_steps: int = 10, lowest: float = 0.0) -> float:
    return learning_rate(
        2.0, step, schedule=schedule, warmup_steps=warmup, num_steps=num_steps, lowest=lowest
    )


def test_rates_rise_to_the_peak_and_follow_their_schedule_down() -> None:
    assert [rate(step, "constant", warmup=4) for step in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert [rate(step, "linear", num_steps=4) for step in range(6)] == [2.0, 1.5, 1.0, 0.5, 0.0, 0.0]
    assert [rate(step, "linear", warmup=2, num_steps=6) for step in (1, 2, 4, 6)] == [2.0, 2.0, 1.0, 0.0]
    assert [rate(step, "cosine", num_steps=4) for step in (0, 2, 4)] == pytest.approx([2.0, 1.0, 0.0])
    assert rate(1, "cosine", num_steps=4) == pytest.approx(1 + math.cos(math.pi / 4))
    assert rate(4, "cosine", num_steps=4, lowest=0.1) == pytest.approx(0.2)
    assert rate(3, "linear", warmup=5, num_steps=5) == 1.6  # all warm-up: nothing is divided by 0
    assert rate(5, "linear", warmup=5, num_steps=5) == 2.0


def parameters(dtype: torch.dtype = torch.float32) -> dict[str, Parameter]:
    values = {"matrix": [[1.0, -2.0], [0.5, 4.0]], "bias": [3.0, -1.0]}
    return {name: Parameter(torch.tensor(value, dtype=dtype)) for name, value in values.items()}


def slope(named: dict[str, Parameter], size: float) -> Tensor:
    """A loss whose gradient is `size` everywhere."""
    return torch.stack([size * parameter.sum() for parameter in named.values()]).sum()


def test_steps_are_adamws_with_decay_on_matrices_alone() -> None:
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


def test_policy_and_value_are_clipped_each_by_its_own_norm_and_step_at_its_own_rate() -> None:
    """AdamW's first moment shows the gradient as clipped: 0.1 times it."""
    policy, value = parameters(), {"head": Parameter(torch.zeros(4))}
    optimizer = Optimizer(policy, value, max_gradient_norm=1.0)
    optimizer.learn(slope(policy, 0.1) + slope(value, 100.0))
    norms = optimizer.norms()
    assert norms.policy == pytest.approx(0.1 * math.sqrt(6))
    assert norms.value == pytest.approx(200.0)
    before = policy["bias"].detach().clone()
    optimizer.step(norms, policy_rate=0.01, value_rate=0.5)
    moments = optimizer.tensors()
    torch.testing.assert_close(moments["bias/exp_avg"], torch.full((2,), 0.01))  # below the norm: as it was
    torch.testing.assert_close(moments["head/exp_avg"], torch.full((4,), 0.05))  # 0.5 each: a norm of 1
    torch.testing.assert_close(policy["bias"].detach(), before - 0.01, rtol=0, atol=1e-5)
    torch.testing.assert_close(value["head"].detach(), torch.full((4,), -0.5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_no_number_shows_in_its_norm(bad: float) -> None:
    policy, value = parameters(), {"head": Parameter(torch.zeros(4))}
    optimizer = Optimizer(policy, value)
    optimizer.learn(slope(policy, 0.1) + slope(value, 0.1))
    assert optimizer.norms().is_finite
    assert value["head"].grad is not None
    value["head"].grad[1] = bad
    assert not optimizer.norms().is_finite


def test_gradients_of_microbatches_add_up_in_fp32_for_weights_of_16_bits() -> None:
    """256 times 1 and then 1: in bf16, where 257 does not exist, the last would be lost."""
    own = parameters(torch.bfloat16)
    optimizer = Optimizer(own, {}, max_gradient_norm=1e9)
    for size in (256.0, 1.0):
        optimizer.learn(slope(own, size))
    assert optimizer.norms().policy == pytest.approx(257 * math.sqrt(6))


def test_weights_of_16_bits_move_by_steps_that_they_cannot_hold() -> None:
    """0.5% of a bf16 weight's last bit at a time: without an fp32 twin it would stand still for ever."""
    own = parameters(torch.bfloat16)
    optimizer = Optimizer(own, {})
    before = own["matrix"].detach().clone()
    for _ in range(100):
        optimizer.learn(slope(own, 1.0))
        optimizer.step(optimizer.norms(), policy_rate=2e-4)
    assert own["matrix"].dtype is torch.bfloat16
    torch.testing.assert_close(own["matrix"].detach().float(), before.float() - 0.02, rtol=0, atol=8e-3)
    assert (own["matrix"] != before)[0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_restored_optimizer_takes_the_same_steps(dtype: torch.dtype) -> None:
    left = parameters(dtype)
    optimizer = Optimizer(left, {}, weight_decay=0.01)

    def steps(named: dict[str, Parameter], own: Optimizer, sizes: tuple[float, ...]) -> None:
        for size in sizes:
            own.learn(slope(named, size))
            own.step(own.norms(), policy_rate=0.01)

    steps(left, optimizer, (0.5, -0.1))
    saved = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
    right = {name: Parameter(parameter.detach().clone()) for name, parameter in left.items()}
    again = Optimizer(right, {}, weight_decay=0.01)
    again.restore(saved)
    steps(left, optimizer, (0.2, 0.9))
    steps(right, again, (0.2, 0.9))
    for name in left:
        assert torch.equal(left[name], right[name])
    assert all(torch.equal(saved, again.tensors()[name]) for name, saved in optimizer.tensors().items())


def test_a_loss_is_scaled_up_where_fp16_would_lose_its_gradient() -> None:
    """Activations in fp16, which ends at 6e-8: 1e-8 of a weight gets through by way of 4e-5."""

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


def test_clipping_knows_the_gradient_as_it_is_not_as_it_was_scaled() -> None:
    own = {"bias": Parameter(torch.ones(4))}
    optimizer = Optimizer(own, {}, scale=1024.0, max_gradient_norm=1.0)
    optimizer.learn(slope(own, 5.0))
    assert optimizer.norms().policy == pytest.approx(10.0)
    optimizer.step(optimizer.norms(), policy_rate=0.0)
    torch.testing.assert_close(optimizer.tensors()["bias/exp_avg"], torch.full((4,), 0.05))
