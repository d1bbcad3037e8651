"""LoRA adapters of a causal model, by name, and merging them into plain weights."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from turnwise.config.learning import PolicyConfig
from turnwise.runtime.model_support import is_quantised
from turnwise.training.model.quantised import plain

if TYPE_CHECKING:
    from peft import PeftModel

BASE = "base"
"""The name that stands for no adapter at all."""


class Adapters:
    """The adapters of one frozen base: any number, one or none of them in use at a time."""

    def __init__(self, model: Any, config: PolicyConfig, name: str, *, seed: int) -> None:
        from peft import get_peft_model

        model.requires_grad_(False)
        with _seeded(seed), warnings.catch_warnings():
            # peft's own patterns for experts, of modules that it then adapts under another name
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
        self.in_use = name
        self._thaw(name)

    @property
    def peft(self) -> "PeftModel":
        """For saving an adapter in peft's own format."""
        return self._peft

    def fuse(self) -> None:
        """Compute what layers and their adapters give in fewer kernels."""
        from turnwise.training.kernels.lora import use_products

        use_products(self._layers)

    def add(self, name: str, *, seed: int) -> None:
        with _seeded(seed), self._same_flags():
            self._peft.add_adapter(name, _lora_config(self._config))
        self.train_dropout(is_training=False)
        self._thaw(name)

    def parameters(self, name: str) -> dict[str, torch.nn.Parameter]:
        """An adapter's own, by names that are the same for all adapters."""
        known = dict(self._model.named_parameters())
        return {short: known[path] for short, path in self.paths(name).items()}

    def paths(self, name: str) -> dict[str, str]:
        """From these names to the model's own."""
        found = {}
        for path, _ in self._model.named_parameters():
            parts = path.split(".")
            for index, part in enumerate(parts):
                if part.startswith("lora_") and parts[index + 1] == name:
                    found[".".join(parts[: index + 1])] = path
        return found

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Run the model with this adapter, or with `base`; then with what it was before."""
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
        self.in_use = name

    @contextmanager
    def _same_flags(self) -> Iterator[None]:
        """peft freezes and thaws as it switches; which parameters learn is not to change by that."""
        flags = {parameter: parameter.requires_grad for parameter in self._model.parameters()}
        yield
        for parameter, requires_grad in flags.items():
            parameter.requires_grad_(requires_grad)

    def _thaw(self, name: str) -> None:
        for parameter in self.parameters(name).values():
            parameter.requires_grad_(True)

    def train_dropout(self, *, is_training: bool) -> None:
        for layer in self._layers:
            layer.lora_dropout.train(is_training)

    def merged(self, name: str) -> dict[str, Tensor]:
        """The base with one adapter added in, under the names that the model had without adapters."""
        weights = {
            path.replace(".base_layer.", "."): plain(parameter)
            for path, parameter in self._model.named_parameters()
            if not any(part.startswith("lora_") for part in path.split("."))
        }
        for path, layer in self._model.named_modules():
            if _is_adapted(layer):
                base = weights[f"{path}.weight"]
                with torch.no_grad():
                    delta = _delta(layer, name)
                    weights[f"{path}.weight"] = (base.to(delta.dtype) + delta).to(base.dtype)
        return weights


def _lora_config(config: PolicyConfig) -> Any:
    from peft import LoraConfig

    targets = config.lora_targets
    return LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # annotated int, used as a number
        lora_dropout=config.lora_dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        bias="none",
        task_type="CAUSAL_LM",
    )


def _delta(layer: Any, name: str) -> Tensor:
    """What the adapter adds to the weight; peft's own word for it is another where the base is packed."""
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
    """Draw from a seed without a trace in the generators that others draw from."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
