"""The policy: log-probs, entropies and values of the model's own tokens."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from turnwise.config.training import PolicyConfig, ValueConfig
from turnwise.models.devices import choose_device
from turnwise.training.kernels.norms import fuse_norms
from turnwise.training.kernels.prefix import Keeper, Prefix
from turnwise.training.packing.layout import PackedLayout, alone, padded, shared
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.adapters import Adapters
from turnwise.training.policy.network import ForwardResult, Network, checkpoint_layers
from turnwise.training.policy.value_head import ValueHead
from turnwise.training.sharding.shards import Shards, local, part_of, whole_shape
from turnwise.types.protocols import Adapter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

POLICY, VALUE = "policy", "value"
"""The names of the adapters; `base` means none of them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scores:
    """One row per sample, one column per own token; 0 where the mask is 0. On the model's device."""

    logprobs_BT: Tensor
    """At least fp32, at the temperature that the samples were drawn at."""
    entropy_BT: Tensor
    """In nats, of the same distribution; NaN if not requested."""
    values_BT: Tensor | None
    """The value of the state in which the token was chosen."""
    mask_BT: Tensor
    """True where the sample has an own token; always on the CPU."""
    bootstrap_B: Tensor | None
    """The value of the state in which the sample ends."""
    num_tokens: int
    """Tokens that the model computed, padding included."""

    def brought(self) -> "Scores":
        """Wait for the model and return a copy on the CPU, through which gradients flow back.

        Loss and metrics read many single values of these small tensors: on a GPU each read would wait.
        """
        return replace(
            self,
            logprobs_BT=self.logprobs_BT.cpu(),
            entropy_BT=self.entropy_BT.cpu(),
            values_BT=None if self.values_BT is None else self.values_BT.cpu(),
            bootstrap_B=None if self.bootstrap_B is None else self.bootstrap_B.cpu(),
        )


@dataclass(frozen=True, slots=True)
class Carried:
    """A prefix that all samples of a pass share, run once beforehand; valid until a weight changes."""

    num_tokens: int
    adapter: str
    parameters: Mapping[str, Tensor] | None
    """The argument of `Policy.carry`: `Policy.score` must be called with the same mapping."""
    versions: tuple[int, ...]
    """torch's write counter of every parameter that learns, to detect changed weights."""
    trunk: Prefix
    value_trunk: Prefix | None
    """The prefix run with the value adapter; None if values are not needed or use no adapter."""

    def backward(self) -> None:
        """Propagate the gradients that the micro-batches left here; call it after the last of them."""
        self.trunk.backward()
        if self.value_trunk is not None:
            self.value_trunk.backward()


class Policy:
    """A causal model that learns, by all its weights or by adapters. The policy takes over the model.

    The model stays in evaluation mode, so that training sees the distribution that was sampled from.
    device: where the model is moved to, `auto` for the best available; by default it is not moved.
    is_fused: norms and adapters in fewer kernels, equal up to rounding; false, as transformers and peft
    compute them, only for comparisons.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        config: PolicyConfig,
        *,
        value: ValueConfig | None = None,
        device: str | None = None,
        seed: int = 0,
        is_fused: bool = True,
    ) -> None:
        if value is not None and value.trunk == "adapter" and config.tuning != "lora":
            raise ValueError("value.trunk='adapter' needs policy.tuning='lora'")
        self._model = cast("Any", model)  # its own annotations are too loose to check against
        self._model.eval()
        if device is not None:
            self._model.to(choose_device(device))
        self._network = Network(model)
        self._config = config
        self._adapters: Adapters | None = None
        if config.tuning == "lora":
            self._adapters = Adapters(model, config, POLICY, seed=seed)
        else:
            self._model.requires_grad_(True)
        self._value_head: ValueHead | None = None
        self._has_value_adapter = value is not None and value.trunk == "adapter"
        self._shards: Shards | None = None
        self._watched: tuple[nn.Parameter, ...] = ()
        if value is not None:
            self._value_head = ValueHead(self._model.get_input_embeddings().weight.shape[1]).to(self.device)
        if self._has_value_adapter:
            assert self._adapters is not None
            self._adapters.add(VALUE, seed=seed + 1)
        self._model.eval()  # new adapters start in training mode
        if config.gradient_checkpointing:
            checkpoint_layers(self._model, self._context_now, config.gradient_checkpointing)
        if is_fused:
            self._fuse()
        if self._network.why_plain:
            name, reason = type(model).__name__, self._network.why_plain
            logger.warning("%s has %s: prefixes are not shared, rows are padded", name, reason)

    def _fuse(self) -> None:
        if self._adapters is not None:
            self._adapters.fuse()
        if self.device.type == "cuda":  # elsewhere a kernel launch costs little
            fuse_norms(self._model)

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    @property
    def model(self) -> "PreTrainedModel":
        """The model itself, with its adapters."""
        model: PreTrainedModel = self._model
        return model

    @property
    def exact_dtype(self) -> torch.dtype:
        """The dtype of log-probs and entropies: at least fp32."""
        return torch.promote_types(self._model.dtype, torch.float32)

    @property
    def is_sharded(self) -> bool:
        """Whether weights are sharded over ranks; every rank must then run every pass."""
        return self._shards is not None

    @property
    def adapters(self) -> Adapters | None:
        """None if every parameter learns."""
        return self._adapters

    @property
    def is_lora(self) -> bool:
        return self._adapters is not None

    @property
    def can_share(self) -> bool:
        """Whether shared prefixes can be computed once; if not, rows are padded."""
        return not self._network.why_plain

    def carry(
        self,
        token_ids: Sequence[int],
        *,
        adapter: str = POLICY,
        parameters: Mapping[str, Tensor] | None = None,
        with_values: bool = False,
    ) -> Carried:
        """Run a prefix once, for `score` to continue from with the same options."""
        assert self.can_share, "the caller checks it first"
        layout = alone(token_ids).to(self.device)
        with self._using(adapter, parameters):
            trunk = self._prefix(layout, parameters)
        value_trunk = None
        if with_values and self._has_value_adapter:
            with self._using(VALUE, None):
                value_trunk = self._prefix(layout, None)
        return Carried(len(token_ids), adapter, parameters, self._versions(), trunk, value_trunk)

    def _prefix(self, layout: PackedLayout, parameters: Mapping[str, Tensor] | None) -> Prefix:
        keeper = Keeper()
        outcome = self._run(layout, parameters, has_scores=False, keeper=keeper)
        # sharding gathers a layer's weights for the backward pass when its output gets a gradient
        return Prefix(keeper.empty(), outcome.hidden_ND if self.is_sharded else None)

    def _versions(self) -> tuple[int, ...]:
        if not self._watched or self.is_sharded:  # sharding may replace the parameters by other tensors
            self._watched = tuple(self.learning.values())
        return tuple(local(parameter)._version for parameter in self._watched)

    def _check_current(self, carried: Carried, adapter: str, parameters: Mapping[str, Tensor] | None) -> None:
        assert carried.adapter == adapter, "what is carried is of another adapter"
        assert carried.parameters is parameters, "what is carried is of other tensors"
        assert carried.versions == self._versions(), "what is carried is of other weights"

    def score(
        self,
        samples: Sequence[Sample],
        *,
        adapter: str = POLICY,
        parameters: Mapping[str, Tensor] | None = None,
        with_values: bool = False,
        with_entropy: bool = True,
        is_shared: bool | None = None,
        carried: Carried | None = None,
    ) -> Scores:
        """Score all samples in one forward pass; gradients follow the context (`torch.no_grad`).

        adapter: `policy`, or `base` for the model without it. parameters: tensors to run with instead of
        those in `trainable`, by the same names. is_shared: compute shared prefixes once; by default if the
        model allows it. carried: the prefix of all samples; it holds its share of the gradients until
        `Carried.backward`. Logits of a sample's own tokens are divided by its temperature.
        """
        if with_values and self._value_head is None:
            raise ValueError("with_values: the policy was made without a value head")
        is_shared = self.can_share if is_shared is None else is_shared and self.can_share
        if carried is None:
            layout, trunk, value_trunk = shared(samples) if is_shared else padded(samples), None, None
        else:
            assert is_shared, "padded rows have no place for a prefix"
            self._check_current(carried, adapter, parameters)
            layout = shared(samples, num_carried=carried.num_tokens)
            trunk, value_trunk = carried.trunk, carried.value_trunk
        mask_BT, layout = layout.mask_BT, layout.to(self.device)
        with self._using(adapter, parameters):
            outcome = self._run(layout, parameters, with_entropy=with_entropy, prefix=trunk)
        values_BT, bootstrap_B = None, None
        if with_values:
            hidden_ND = outcome.hidden_ND.detach()
            if self._has_value_adapter:
                with self._using(VALUE, None):
                    hidden_ND = self._run(layout, None, has_scores=False, prefix=value_trunk).hidden_ND
            values_BT, bootstrap_B = self._values(hidden_ND, layout)
        return Scores(
            outcome.logprobs_BT, outcome.entropy_BT, values_BT, mask_BT, bootstrap_B, layout.num_tokens
        )

    def _run(
        self, layout: PackedLayout, parameters: Mapping[str, Tensor] | None, **options: Any
    ) -> ForwardResult:
        """Run the network, with `parameters` swapped in if given; options are those of `Network.forward`."""
        if parameters is None:
            outcome: ForwardResult = self._network(layout, **options)
            return outcome
        if self._config.gradient_checkpointing and torch.is_grad_enabled():
            raise ValueError("parameters: gradients cannot be taken with gradient_checkpointing on")
        paths = (
            {name: name for name in parameters} if self._adapters is None else self._adapters.paths(POLICY)
        )
        swapped = {f"model.{paths[name]}": tensor for name, tensor in parameters.items()}
        swapped_outcome: ForwardResult = torch.func.functional_call(
            self._network, swapped, (layout,), options
        )
        return swapped_outcome

    def _values(self, hidden_ND: Tensor, layout: PackedLayout) -> tuple[Tensor, Tensor]:
        assert self._value_head is not None
        mask_BT = layout.mask_BT
        values_P = self._value_head(hidden_ND.index_select(0, layout.asked.source_P))
        zeros_BT = torch.zeros(mask_BT.shape, dtype=values_P.dtype, device=values_P.device)
        values_BT = zeros_BT.masked_scatter(mask_BT, values_P)
        return values_BT, self._value_head(hidden_ND[layout.end_B])

    @contextmanager
    def _using(self, adapter: str, parameters: Mapping[str, Tensor] | None) -> Iterator[None]:
        if self._adapters is None:
            if adapter != POLICY and parameters is None:
                raise ValueError(f"adapter {adapter!r}: policy.tuning='full' has no adapters")
            yield
            return
        with self._adapters.using(adapter):
            yield

    def _context_now(self) -> Any:
        """Return the context to recompute a layer in: the adapter that is active now."""
        return nullcontext() if self._adapters is None else self._adapters.using(self._adapters.in_use)

    @property
    def trainable(self) -> dict[str, nn.Parameter]:
        """The policy's parameters that learn."""
        if self._adapters is not None:
            return self._adapters.parameters(POLICY)
        return dict(self._model.named_parameters())

    @property
    def value_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters of the value head and of its adapter; empty without a value head."""
        if self._value_head is None:
            return {}
        parameters = {f"head.{name}": parameter for name, parameter in self._value_head.named_parameters()}
        if self._has_value_adapter and self._adapters is not None:
            parameters |= {
                f"adapter.{name}": parameter for name, parameter in self._adapters.parameters(VALUE).items()
            }
        return parameters

    def shard(self, make: Callable[[nn.Module, torch.device], "Shards"], device: str) -> None:
        """Shard the network over ranks; each rank keeps the whole value head."""
        assert self._shards is None, "it is sharded once"
        self._shards = make(self._network, torch.device(choose_device(device)))
        if self._value_head is not None:
            self._value_head.to(self.device)

    @property
    def shards(self) -> "Shards | None":
        """The sharded network; None if every rank holds all weights."""
        return self._shards

    def settle(self) -> None:
        """Release gathered weights; call it before this rank's parts are read or written."""
        if self._shards is not None:
            self._shards.settle()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Gather every weight on every rank, for reading, while the block runs."""
        if self._shards is None:
            yield
            return
        with self._shards.gathered():
            yield

    @contextmanager
    def lending(self, parameters: Mapping[str, Tensor]) -> Iterator[None]:
        """Run the block with other values of `trainable`, given as this rank's parts; no gradients."""
        own = {name: local(parameter) for name, parameter in self.trainable.items()}
        self.settle()
        with torch.no_grad():
            before = {name: parameter.clone() for name, parameter in own.items()}
            for name, parameter in own.items():
                parameter.copy_(parameters[name])
        try:
            yield
        finally:
            self.settle()
            with torch.no_grad():
                for name, parameter in own.items():
                    parameter.copy_(before[name])

    def weights(self) -> Mapping[str, Tensor]:
        """Return every parameter by the plain model's name, the adapter merged in, for an engine.

        If weights are sharded, call it inside `gathered`.
        """
        if self._adapters is not None:
            return self._adapters.merged(POLICY)
        return {name: parameter.detach() for name, parameter in self._model.named_parameters()}

    def adapter(self) -> Adapter:
        """Return the adapter alone, for an engine that already has the base."""
        if self._adapters is None:
            raise ValueError("there is no adapter with policy.tuning='full'")
        tensors = {name: parameter.detach() for name, parameter in self.trainable.items()}
        return Adapter(tensors, self._config.lora_rank, self._config.lora_alpha)

    def state(self) -> dict[str, Tensor]:
        """Return a copy of every parameter that learns, by name."""
        return {name: parameter.detach().clone() for name, parameter in self.learning.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned; a wrong name or shape raises ValueError before anything changes."""
        known = self.learning
        if state.keys() != known.keys():
            wrong = sorted(state.keys() ^ known.keys())
            raise ValueError(f"state: {wrong[0]!r} is missing or unknown ({len(wrong)} such names)")
        for name, tensor in state.items():
            if tensor.shape != whole_shape(known[name]):
                actual, expected = tuple(tensor.shape), tuple(whole_shape(known[name]))
                raise ValueError(f"state: {name!r} has shape {actual}, expected {expected}")
        with torch.no_grad():
            for name, tensor in state.items():
                local(known[name]).copy_(part_of(tensor, known[name]))

    @property
    def learning(self) -> dict[str, nn.Parameter]:
        """Every parameter that learns, as `policy/name` and `value/name`."""
        policy = {f"{POLICY}/{name}": parameter for name, parameter in self.trainable.items()}
        return policy | {f"{VALUE}/{name}": parameter for name, parameter in self.value_parameters.items()}
