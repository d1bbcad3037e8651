"""LoRA adapters of a causal model, by name, and merging them into plain weights."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from turnwise.config.training import PolicyConfig
from turnwise.models.model_support import is_quantised
from turnwise.models.quantised import plain
from turnwise.training.policy.token_rows import TokenRows, add_rows

if TYPE_CHECKING:
    from peft import PeftModel

BASE = "base"
"""The adapter name that means the base model without an adapter."""


class Adapters:
    """The LoRA adapters of one frozen base model; at most one is active at a time."""

    def __init__(self, model: Any, config: PolicyConfig, name: str, *, seed: int) -> None:
        from peft import get_peft_model

        model.requires_grad_(False)
        with _seeded(seed), warnings.catch_warnings():
            # peft adds these patterns for expert modules itself, then adapts those modules under other names
            warnings.filterwarnings("ignore", "The following (rank|alpha)_pattern keys", RuntimeWarning)
            self._peft: PeftModel = get_peft_model(model, _lora_config(config), adapter_name=name)
        self._model = model
        self._config = config
        self._layers = [module for module in model.modules() if _is_adapted(module)]
        for embeddings in (model.get_input_embeddings(), model.get_output_embeddings()):
            if _is_adapted(embeddings):
                raise ValueError("policy.lora_targets: adapters on embeddings or the head are not supported")
        for layer in self._layers:
            if not hasattr(layer.get_base_layer(), "weight"):
                raise ValueError(
                    f"policy.lora_targets: adapters on {type(layer.get_base_layer()).__name__} cannot be "
                    "merged; name the linear layers alone, as ['q_proj', 'k_proj', 'v_proj', 'o_proj']"
                )
        self._rows = add_rows(model, config.lora_tokens, name) if config.lora_tokens else []
        self.in_use = name
        self._thaw(name)

    @property
    def peft(self) -> "PeftModel":
        """The peft wrapper, for saving an adapter in peft's format."""
        return self._peft

    @property
    def has_rows(self) -> bool:
        """Whether rows of tokens are trained with the adapter."""
        return bool(self._rows)

    def fuse(self) -> None:
        """Compute each adapted linear layer in fewer kernels."""
        from turnwise.training.kernels.lora import use_products

        use_products(self._layers)

    def add(self, name: str, *, seed: int) -> None:
        with _seeded(seed), self._same_flags():
            self._peft.add_adapter(name, _lora_config(self._config))
        self._thaw(name)

    def parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """Return an adapter's parameters by short names, which are the same for all adapters."""
        known = dict(self._model.named_parameters())
        return {short: known[path] for short, path in self.paths(name).items()}

    def paths(self, name: str) -> dict[str, str]:
        """Map the short names, which lack the adapter's name, to the model's own parameter names."""
        by_name = {}
        for path, _ in self._model.named_parameters():
            parts = path.split(".")
            for index, part in enumerate(parts):
                if part.startswith("lora_") and parts[index + 1] == name:
                    by_name[".".join(parts[: index + 1])] = path
        return by_name

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Activate this adapter, or none for `base`, while the block runs; then restore the previous one."""
        before = self.in_use
        self._use(name)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, name: str) -> None:
        if name == self.in_use:
            return
        with self._same_flags():
            for layer in self._layers:
                layer.enable_adapters(name != BASE)
                if name != BASE:
                    layer.set_adapter([name])
        for rows in self._rows:
            rows.is_active = name == rows.adapter
        self.in_use = name

    @contextmanager
    def _same_flags(self) -> Iterator[None]:
        """Restore every `requires_grad` afterwards: peft changes them when it adds or switches adapters."""
        flags = {parameter: parameter.requires_grad for parameter in self._model.parameters()}
        yield
        for parameter, requires_grad in flags.items():
            parameter.requires_grad_(requires_grad)

    def _thaw(self, name: str) -> None:
        for parameter in self.parameters(name).values():
            parameter.requires_grad_(True)

    def merged(self, name: str) -> "MergedWeights":
        """Return the base weights with one adapter added, by the names the model had without adapters."""
        base = {
            path.replace(".base_layer.", "."): parameter
            for path, parameter in self._model.named_parameters()
            if not any(part.startswith("lora_") for part in path.split("."))
        }
        trained = (self._model.get_input_embeddings().weight, self._model.get_output_embeddings().weight)
        rows = {
            path: rows
            for rows, weight in zip(self._rows, trained, strict=False)
            for path, parameter in base.items()
            if parameter is weight
        }
        layers = {
            f"{path}.weight": layer for path, layer in self._model.named_modules() if _is_adapted(layer)
        }
        return MergedWeights(base, layers, rows, name)


class MergedWeights(Mapping[str, Tensor]):
    """Weights with an adapter added, computed when they are read: the memory never holds all of them.

    They are those of the time of reading: read them before the next update.
    """

    def __init__(
        self,
        base: Mapping[str, Tensor],
        layers: Mapping[str, Any],
        rows: Mapping[str, TokenRows],
        adapter: str,
    ) -> None:
        self._base, self._layers, self._rows, self._adapter = base, layers, rows, adapter

    def __getitem__(self, name: str) -> Tensor:
        base = plain(self._base[name])
        if name in self._rows:
            return self._rows[name].added_to(base)
        if name not in self._layers:
            return base
        with torch.no_grad():
            delta = _delta(self._layers[name], self._adapter)
            return (base.to(delta.dtype) + delta).to(base.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._base)

    def __len__(self) -> int:
        return len(self._base)


def _lora_config(config: PolicyConfig) -> Any:
    from peft import LoraConfig

    targets = config.lora_targets
    return LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # annotated int, used as a number
        lora_dropout=0.0,  # with dropout the trained policy would not be the sampled one
        target_modules=targets if isinstance(targets, str) else list(targets),
        bias="none",
        task_type="CAUSAL_LM",
    )


def _delta(layer: Any, name: str) -> Tensor:
    """Return what the adapter adds to the weight; on a quantised base it is computed without peft."""
    if not is_quantised(layer.get_base_layer().weight):
        added: Tensor = layer.get_delta_weight(name)
        return added
    up_DR, down_RD = layer.lora_B[name].weight, layer.lora_A[name].weight
    product: Tensor = up_DR @ down_RD * layer.scaling[name]
    return product


def _is_adapted(module: Any) -> bool:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return isinstance(module, BaseTunerLayer)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators while the block runs, then restore their state."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
