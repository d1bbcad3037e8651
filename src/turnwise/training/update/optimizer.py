"""AdamW with fp32 states over gradients accumulated from micro-batches.

A parameter of fewer than 32 bits has an fp32 twin, which accumulates gradients and takes the steps: in bf16
an update of 1/500 of a weight's size is rounded away. Of a sharded parameter, each rank optimizes its part.
"""

import gc
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter

from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.sharding.shards import (
    Shard,
    is_averaged,
    is_spread,
    local,
    part_of,
    shard_of,
    taken_gradient,
)
from turnwise.training.update.offload import HostAdamW

logger = logging.getLogger(__name__)

MOMENTS = ("exp_avg", "exp_avg_sq", "step")

HALF_SCALE = 4096.0
"""The loss scale for fp16 activations; gradients are divided by it. Unscaled, a share of 1/10,000 of a mean
over tokens, times a small weight, is below 6e-8, the smallest fp16 number. A scale that is too large gives
infinite gradients, and the step is skipped."""


def learning_rate(
    peak: float,
    step: int,
    *,
    schedule: Literal["constant", "linear", "cosine"],
    warmup_steps: int,
    num_steps: int,
    lowest: float = 0.0,
) -> float:
    """Return the rate of a step, from 0 on: linear warm-up, then decay to `lowest` · peak at `num_steps`.

    It depends on the step number alone, so a checkpoint need not save it.
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps  # never 0, which would waste the first step
    if schedule == "constant":
        return peak
    progress = min((step - warmup_steps) / max(num_steps - warmup_steps, 1), 1.0)
    left = 1 - progress if schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return peak * (lowest + (1 - lowest) * left)


def scale_of(dtype: torch.dtype) -> float:
    """Return the loss scale for activations of this dtype."""
    return HALF_SCALE if dtype is torch.float16 else 1.0


@dataclass(frozen=True, slots=True)
class Norms:
    """The norms of the accumulated gradients, before clipping."""

    policy: float
    value: float
    """0 without a value head."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.policy) and math.isfinite(self.value)


class Optimizer:
    """AdamW over the policy and the value head, with gradients clipped separately.

    With one norm for both, the large early errors of a new value head would scale down the policy's gradient.
    """

    def __init__(
        self,
        policy: Mapping[str, Parameter],
        value: Mapping[str, Parameter],
        *,
        max_gradient_norm: float = 1.0,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        scale: float = 1.0,
        ranks: Ranks = ALONE,
        settle: Callable[[], None] = lambda: None,
        is_offloaded: bool = False,
    ) -> None:
        """settle: called before parts of sharded parameters are written.

        is_offloaded: keep moments and twins in host memory; not for sharded parameters.
        """
        self._settle = settle
        self._parameters: dict[str, Parameter] = {**policy, **value}
        assert len(self._parameters) == len(policy) + len(value), "a parameter is the policy's or the value's"
        self._value_names = frozenset(value)
        self._max_norm = max_gradient_norm
        self._scale = scale
        self._ranks = ranks
        self._spread = frozenset(name for name, parameter in self._parameters.items() if is_spread(parameter))
        # FSDP2 takes the mean of the ranks' gradients, but the loss is the sum of their shares
        self._num_averaged = ranks.count if any(map(is_averaged, self._parameters.values())) else 1
        assert not (is_offloaded and self._spread), "the recipe refuses it"
        make = _gradient_holder if is_offloaded else _twin
        self._twins: dict[str, Tensor] = {
            name: make(parameter) for name, parameter in self._parameters.items()
        }
        groups = self._groups(weight_decay)
        self._offloaded: HostAdamW | None = None
        if is_offloaded:
            weights = {self._twins[name]: parameter for name, parameter in self._parameters.items()}
            self._offloaded = HostAdamW(groups, weights, betas=betas, epsilon=epsilon)
        self._adamw = self._offloaded or torch.optim.AdamW(
            groups, lr=0.0, betas=betas, eps=epsilon, foreach=True
        )

    def _groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Return groups for policy and value, each split into matrices and the rest, which does not decay."""
        groups: list[dict[str, Any]] = []
        for is_value in (False, True):
            for is_matrix in (False, True):
                twins = [
                    twin
                    for name, twin in self._twins.items()
                    if (name in self._value_names) == is_value and (twin.ndim >= 2) == is_matrix
                ]
                decay = weight_decay if is_matrix else 0.0
                groups.append({"params": twins, "weight_decay": decay, "is_value": is_value})
        return [group for group in groups if group["params"]]

    def learn(self, loss: Tensor) -> None:
        """Run a micro-batch's share of the loss backward, and accumulate its gradients."""
        self.gather((loss * (self._scale * self._num_averaged)).backward)

    def gather(self, backward: Callable[[], None]) -> None:
        """Accumulate the gradients of a backward pass that continues one of `learn`: already scaled."""
        backward()
        for name, parameter in self._parameters.items():
            twin = self._twins[name]
            given = None if twin is parameter else taken_gradient(parameter)
            if given is not None:
                twin.grad = given.float() if twin.grad is None else twin.grad.add_(given.float())

    def share(self) -> None:
        """Sum the accumulated gradients over ranks; call it after the last micro-batch."""
        if self._ranks.count == 1:
            return
        unsharded = [name for name in self._twins if name not in self._spread]
        if self._num_averaged > 1:  # undo the factor of `learn`: FSDP2 does not average these
            for name in unsharded:
                if (grad := self._twins[name].grad) is not None:
                    grad.div_(self._num_averaged)
        given = self._ranks.exchange([self._twins[name].grad is not None for name in unsharded])
        shared = [name for name, *has_it in zip(unsharded, *given, strict=True) if any(has_it)]
        for name in shared:
            if self._twins[name].grad is None:
                self._twins[name].grad = torch.zeros_like(self._twins[name])
        self._ranks.add_up([_given(self._twins[name].grad) for name in shared])

    def clear(self) -> None:
        """Discard the accumulated gradients."""
        for name, parameter in self._parameters.items():
            taken_gradient(parameter)
            self._twins[name].grad = None

    def norms(self) -> Norms:
        return Norms(self._norm(is_value=False), self._norm(is_value=True))

    def _norm(self, *, is_value: bool) -> float:
        norm = _norm(self._gradients(is_value=is_value, is_spread=False))
        if self._spread:
            parts = _norm(self._gradients(is_value=is_value, is_spread=True))
            norm = math.hypot(norm, *self._ranks.exchange(parts))
        return norm / self._scale

    def _gradients(self, *, is_value: bool, is_spread: bool | None = None) -> list[Tensor]:
        return [
            twin.grad
            for name, twin in self._twins.items()
            if (name in self._value_names) == is_value
            and (is_spread is None or (name in self._spread) == is_spread)
            and twin.grad is not None
        ]

    def step(self, norms: Norms, *, policy_rate: float, value_rate: float = 0.0) -> None:
        """Clip by `norms`, take one step, and discard the gradients."""
        for is_value, norm in ((False, norms.policy), (True, norms.value)):
            factor = min(self._max_norm / norm, 1.0) / self._scale if norm else 1.0
            if factor != 1.0:
                torch._foreach_mul_(self._gradients(is_value=is_value), factor)
        for group in self._adamw.param_groups:
            group["lr"] = value_rate if group["is_value"] else policy_rate
        self._settle()
        self._make_room()
        self._adamw.step()
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                if self._twins[name] is not parameter and self._offloaded is None:
                    local(parameter).copy_(self._twins[name])
        self.clear()

    def _make_room(self) -> None:
        """Step tensor by tensor if there is no room for what a step of all tensors at once allocates.

        Running out of memory within a step would leave some moments changed and others not.
        """
        if self._offloaded is not None:
            return
        for group in self._adamw.param_groups:
            group["foreach"] = True
        learning = [twin for twin in self._twins.values() if twin.grad is not None]
        if not learning:
            return
        num_new = sum(twin.numel() for twin in learning if twin not in self._adamw.state)
        num_roots = sum(twin.numel() for twin in learning)
        if not _has_room(2 * num_new + num_roots, learning[0]):
            gc.collect()
            torch.cuda.empty_cache()
            logger.warning("little memory is left: the optimizer takes its step tensor by tensor")
            for group in self._adamw.param_groups:
                group["foreach"] = False

    def tensors(self) -> dict[str, Tensor | Shard]:
        """Return moments and fp32 twins, as `name/what`; not the parameters themselves."""
        found: dict[str, Tensor | Shard] = {}
        for name, twin in self._twins.items():
            parameter = self._parameters[name]
            if parameter.dtype.itemsize < 4:
                found[f"{name}/twin"] = shard_of(self._exact(twin).detach(), parameter)
            for moment, tensor in self._adamw.state.get(twin, {}).items():
                found[f"{name}/{moment}"] = shard_of(tensor, parameter)
        return found

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned, bit for bit."""
        self.clear()
        self._adamw.state.clear()
        for name, twin in self._twins.items():
            parameter = self._parameters[name]
            if parameter.dtype.itemsize < 4:
                self._exact(twin).copy_(part_of(tensors[f"{name}/twin"], parameter))
            if f"{name}/{MOMENTS[0]}" not in tensors:
                continue  # it has never had a gradient
            *moments, count = (tensors[f"{name}/{moment}"] for moment in MOMENTS)
            if count.ndim:
                raise ValueError(f"{name}: the number of steps has shape {tuple(count.shape)}")
            own = [part_of(moment, parameter) for moment in moments]
            if self._offloaded is not None:
                self._offloaded.set_state(twin, dict(zip(MOMENTS, [*own, count], strict=True)))
                continue
            parts = [moment.clone().to(twin.device) for moment in own]
            # torch keeps the count on the CPU, the moments on the parameter's device
            self._adamw.state[twin] = dict(zip(MOMENTS, [*parts, count.clone().cpu()], strict=True))

    def _exact(self, twin: Tensor) -> Tensor:
        """The fp32 values of a narrower parameter."""
        return twin if self._offloaded is None else self._offloaded.copies[twin]


def _gradient_holder(parameter: Parameter) -> Tensor:
    """Return what accumulates gradients in fp32 on the device: the parameter, or a tensor of one number."""
    if parameter.dtype.itemsize >= 4:
        return parameter
    return Parameter(torch.zeros((), device=parameter.device).expand(parameter.shape))


def _twin(parameter: Parameter) -> Tensor:
    """Return what steps are taken on: the parameter, its part in the same memory, or an fp32 copy."""
    part = local(parameter)
    if part.dtype.itemsize < 4:
        return Parameter(part.detach().float())
    return parameter if part is parameter else Parameter(part.detach())


def _has_room(num_floats: int, like: Tensor) -> bool:
    try:
        torch.empty(num_floats, dtype=torch.float32, device=like.device)
    except torch.OutOfMemoryError:
        return False
    return True


def _norm(gradients: list[Tensor]) -> float:
    if not gradients:
        return 0.0
    # summed in fp64, so that the number of tensors adds no rounding of its own
    return float(torch.stack([norm.double() for norm in torch._foreach_norm(gradients)]).norm())


def _given(gradient: Tensor | None) -> Tensor:
    assert gradient is not None, "it was given or made"
    return gradient
