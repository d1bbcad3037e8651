"""The reference policy of the KL term: frozen, copied now and then, or a moving average.

Only tensors that learn are copied: with LoRA that is the adapter, never the base. A frozen reference of a
LoRA policy copies nothing: it is the base with the adapter off. Averaging A and B is not averaging their
product BA: a LoRA `ema` only approximates the averaged policy, and only while the two adapters are close.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from turnwise.config import ReferenceConfig
from turnwise.system.ranks import ALONE, Ranks
from turnwise.training.algorithms.ema import ema
from turnwise.training.policy.adapters import BASE
from turnwise.training.policy.policy import POLICY, Policy
from turnwise.training.sharding.shards import Shard, local, part_of, shard_of


class Reference:
    """π_ref: `none`, `frozen`, `hard` (copied every `every` updates) or `ema` (a moving average)."""

    def __init__(self, policy: Policy, config: ReferenceConfig, ranks: Ranks = ALONE) -> None:
        self._policy = policy
        self._ranks = ranks
        self._config = config
        self._is_base = config.kind == "frozen" and policy.is_lora
        self._kept: dict[str, Tensor] = {}
        if self.exists and not self._is_base:
            self._kept = {name: self._copy(tensor) for name, tensor in self._learning.items()}

    @property
    def _learning(self) -> dict[str, Tensor]:
        """The policy's parameters that learn; if sharded, this rank's parts."""
        return {name: local(parameter) for name, parameter in self._policy.trainable.items()}

    @property
    def exists(self) -> bool:
        return self._config.kind != "none"

    def _copy(self, tensor: Tensor) -> Tensor:
        # 0.01 of a small change is below bf16's resolution, so an average is kept in fp32
        is_narrow = tensor.dtype.itemsize < 4 and self._config.kind == "ema"
        return tensor.detach().to(torch.float32 if is_narrow else tensor.dtype, copy=True)

    @property
    def adapter(self) -> str:
        """The adapter to run the policy with as the reference, together with `parameters()`."""
        return BASE if self._is_base else POLICY

    def parameters(self) -> dict[str, Tensor] | None:
        """Return the reference's values of the trainable parameters, in their dtypes; None for the base."""
        assert self.exists, "there is no reference to ask"
        if self._is_base:
            return None
        return {name: self._kept[name].to(tensor.dtype) for name, tensor in self._learning.items()}

    def is_due(self, num_updates: int) -> bool:
        return self._config.kind in ("hard", "ema") and num_updates % self._config.every == 0

    @torch.no_grad()
    def follow(self, num_updates: int) -> dict[str, float]:
        """Move the reference if it is due after the policy's n-th update; return metrics that verify it."""
        if not self.is_due(num_updates):
            return {"reference/updated": 0.0} if self.exists else {}
        before = {name: tensor.clone() for name, tensor in self._kept.items()}
        self._move()
        return {"reference/updated": 1.0, **self._verify(before)}

    def _move(self) -> None:
        for name, tensor in self._learning.items():
            kept = self._kept[name]
            kept.copy_(ema(kept, tensor, decay=self._config.decay) if self._config.kind == "ema" else tensor)

    def _verify(self, before: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the share of tensors that moved among those due to, and their error against fp64."""
        share = self._config.decay if self._config.kind == "ema" else 0.0
        num_due = num_moved = num_wrong = 0
        worst = 0.0
        for name, tensor in self._learning.items():
            kept, due = self._kept[name], not torch.equal(before[name], tensor.to(before[name].dtype))
            num_due += due
            num_moved += due and not torch.equal(before[name], kept)
            expected = share * before[name].double() + (1 - share) * tensor.double()
            error = float((kept.double() - expected).abs().max()) if tensor.numel() else 0.0
            num_wrong += not error <= _tolerance(expected, kept.dtype, self._config.kind)
            worst = max(worst, error)
        if self._policy.is_sharded:
            by_rank = self._ranks.exchange((num_due, num_moved, num_wrong, worst))
            num_due, num_moved, num_wrong = (sum(counts) for counts in list(zip(*by_rank, strict=True))[:3])
            worst = max(tensor[3] for tensor in by_rank)
        return {
            "reference/moved": num_moved / num_due if num_due else 1.0,
            "reference/num_wrong": float(num_wrong),
            "reference/max_error": worst,
        }

    def tensors(self) -> dict[str, Tensor | Shard]:
        parameters = self._policy.trainable
        return {name: shard_of(kept, parameters[name]) for name, kept in self._kept.items()}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        parameters = self._policy.trainable
        for name, kept in self._kept.items():
            kept.copy_(part_of(tensors[name], parameters[name]))


def _tolerance(expected: Tensor, dtype: torch.dtype, kind: str) -> float:
    """Return the allowed error: 0 for a copy, four roundings of the largest entry for an average."""
    if kind == "hard" or not expected.numel():
        return 0.0
    return 4 * torch.finfo(dtype).eps * float(expected.abs().max())
