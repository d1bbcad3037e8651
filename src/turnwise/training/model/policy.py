"""The policy: log-probs, entropies and values of the model's own tokens."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from turnwise.config.learning import PolicyConfig, ValueConfig
from turnwise.protocols import Adapter
from turnwise.runtime.devices import choose_device
from turnwise.training.kernels.norms import fuse_norms
from turnwise.training.kernels.prefix import Keeper, Prefix
from turnwise.training.model.adapters import Adapters
from turnwise.training.model.network import ForwardResult, Network, checkpoint_layers
from turnwise.training.model.value_head import ValueHead
from turnwise.training.packing.layout import PackedLayout, alone, padded, shared
from turnwise.training.packing.samples import Sample, temperature_of
from turnwise.training.sharding.shards import Shards, local, part_of, whole_shape

if TYPE_CHECKING:
    from transformers import PreTrainedModel

POLICY, VALUE = "policy", "value"
"""Adapters by name; `base` stands for none of them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scores:
    """One row a sample, one column an own token; 0 where the mask is. On the model's device."""

    logprobs_BT: Tensor
    """fp32, at the temperature that the samples were drawn at."""
    entropy_BT: Tensor
    """In nats, of the same distribution; NaN if not asked for."""
    values_BT: Tensor | None
    """Of the state that the token was chosen in."""
    mask_BT: Tensor
    """On the CPU."""
    bootstrap_B: Tensor | None
    """Value of the state that the sample ends in."""
    num_tokens: int
    """What the model computed for it, padding too."""

    def brought(self) -> "Scores":
        """On the CPU, once the model is done; gradients go back from there.

        It is few numbers, of which much is asked that a GPU would be waited for again and again.
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
    """What all samples of a pass begin with, run once beforehand; good until a weight changes."""

    num_tokens: int
    adapter: str
    parameters: Mapping[str, Tensor] | None
    """As `Policy.score` takes them: it must be asked for the same."""
    versions: tuple[int, ...]
    """Of every parameter that learns: torch counts how often each was written to."""
    trunk: Prefix
    value_trunk: Prefix | None
    """Of the value head's own adapter."""

    def backward(self) -> None:
        """After the last micro-batch's own: what it and those before it left here, back to the weights."""
        self.trunk.backward()
        if self.value_trunk is not None:
            self.value_trunk.backward()


class Policy:
    """A causal model that learns, whole or by adapters; it is the policy's own from now on.

    The model stays in evaluation mode: what is trained is the distribution that was sampled from. device:
    where it is moved to, `auto` for the best there is; by default it stays where it is.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        config: PolicyConfig,
        *,
        value: ValueConfig | None = None,
        device: str | None = None,
        seed: int = 0,
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
        self._model.eval()  # new adapters come in training mode
        if config.gradient_checkpointing:
            checkpoint_layers(self._model, self._context_now)
        if config.kernels != "plain":
            self._fuse()
        if self._network.why_plain:
            name, reason = type(model).__name__, self._network.why_plain
            logger.warning("%s has %s: prefixes are not shared, rows are padded", name, reason)

    def _fuse(self) -> None:
        if self._adapters is not None:
            self._adapters.fuse()
        if self.device.type == "cuda":  # elsewhere a launch costs little
            fuse_norms(self._model)

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    @property
    def model(self) -> "PreTrainedModel":
        """The model itself, adapters inside."""
        model: PreTrainedModel = self._model
        return model

    @property
    def exact_dtype(self) -> torch.dtype:
        """Of log-probs and entropies."""
        return torch.promote_types(self._model.dtype, torch.float32)

    @property
    def is_sharded(self) -> bool:
        """Whether weights are spread over ranks, which all of them then run every pass for."""
        return self._shards is not None

    @property
    def adapters(self) -> Adapters | None:
        """None where every parameter learns."""
        return self._adapters

    @property
    def is_lora(self) -> bool:
        return self._adapters is not None

    @property
    def can_share(self) -> bool:
        """Whether prefixes can be computed once; if not, the plain way is taken."""
        return not self._network.why_plain

    @property
    def can_carry(self) -> bool:
        """Whether many micro-batches may go on from one prefix: not with dropout, drawn anew for each."""
        return self.can_share and not self._config.lora_dropout

    def carry(
        self,
        token_ids: Sequence[int],
        *,
        adapter: str = POLICY,
        parameters: Mapping[str, Tensor] | None = None,
        with_values: bool = False,
    ) -> Carried:
        """Run a prefix once, for `score` to go on from, with the same options."""
        assert self.can_carry, "who carries asks first"
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
        # what gathers a layer's weights for the backward pass waits for a gradient at its output
        return Prefix(keeper.empty(), outcome.hidden_ND if self.is_sharded else None)

    def _versions(self) -> tuple[int, ...]:
        if not self._watched or self.is_sharded:  # what is spread over ranks may come as other tensors
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
        """All in one forward pass; gradients as the context has it (`torch.no_grad`).

        adapter: `policy`, or `base` for the model without it. parameters: tensors to run with in the place
        of those in `trainable`, by the same names. is_shared: by default wherever the model allows it.
        carried: what all samples begin with; its share of the gradients waits in it. Logits are divided by
        the samples' temperature, which is one for all of them.
        """
        temperature = temperature_of(samples)
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
            outcome = self._run(
                layout, parameters, temperature=temperature, with_entropy=with_entropy, prefix=trunk
            )
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
        """options: as the network takes them."""
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
                raise ValueError(f"adapter {adapter!r}: there are none with policy.tuning='full'")
            yield
            return
        with self._adapters.using(adapter):
            if self._config.lora_dropout:
                self._adapters.train_dropout(is_training=torch.is_grad_enabled())
            yield

    def _context_now(self) -> Any:
        """What a layer that runs now must run in when it is run again."""
        return nullcontext() if self._adapters is None else self._adapters.using(self._adapters.in_use)

    @property
    def trainable(self) -> dict[str, nn.Parameter]:
        """The policy's parameters that learn."""
        if self._adapters is not None:
            return self._adapters.parameters(POLICY)
        return dict(self._model.named_parameters())

    @property
    def value_parameters(self) -> dict[str, nn.Parameter]:
        """The value head's, and its adapter's; empty without one."""
        if self._value_head is None:
            return {}
        found = {f"head.{name}": parameter for name, parameter in self._value_head.named_parameters()}
        if self._has_value_adapter and self._adapters is not None:
            found |= {
                f"adapter.{name}": parameter for name, parameter in self._adapters.parameters(VALUE).items()
            }
        return found

    def shard(self, make: Callable[[nn.Module, torch.device], "Shards"], device: str) -> None:
        """Spread what the model holds over ranks; the value head stays whole on each."""
        assert self._shards is None, "it is sharded once"
        self._shards = make(self._network, torch.device(choose_device(device)))
        if self._value_head is not None:
            self._value_head.to(self.device)

    @property
    def shards(self) -> "Shards | None":
        """What holds the weights where ranks share them."""
        return self._shards

    def settle(self) -> None:
        """Before parts of what is spread over ranks are read or written to."""
        if self._shards is not None:
            self._shards.settle()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Every weight whole on every rank, to be read, while the block runs."""
        if self._shards is None:
            yield
            return
        with self._shards.gathered():
            yield

    @contextmanager
    def lending(self, parameters: Mapping[str, Tensor]) -> Iterator[None]:
        """This rank's parts of other values in the place of its own, while the block runs; no gradients."""
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

    def weights(self) -> dict[str, Tensor]:
        """Every parameter under the plain model's name, the adapter merged in: what an engine takes.

        Where weights are spread over ranks, to be asked for while they are `gathered`.
        """
        if self._adapters is not None:
            return self._adapters.merged(POLICY)
        return {name: parameter.detach() for name, parameter in self._model.named_parameters()}

    def adapter(self) -> Adapter:
        """What was learned, by itself: for an engine that has the base already."""
        if self._adapters is None:
            raise ValueError("there is no adapter with policy.tuning='full'")
        tensors = {name: parameter.detach() for name, parameter in self.trainable.items()}
        return Adapter(tensors, self._config.lora_rank, self._config.lora_alpha)

    def state(self) -> dict[str, Tensor]:
        """A copy of all that learns, by name."""
        return {name: parameter.detach().clone() for name, parameter in self.learning.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave, all of it or nothing."""
        known = self.learning
        if state.keys() != known.keys():
            wrong = sorted(state.keys() ^ known.keys())
            raise ValueError(f"state: {wrong[0]!r} is missing or unknown ({len(wrong)} such names)")
        for name, tensor in state.items():
            if tensor.shape != whole_shape(known[name]):
                given, expected = tuple(tensor.shape), tuple(whole_shape(known[name]))
                raise ValueError(f"state: {name!r} has shape {given}, expected {expected}")
        with torch.no_grad():
            for name, tensor in state.items():
                local(known[name]).copy_(part_of(tensor, known[name]))

    @property
    def learning(self) -> dict[str, nn.Parameter]:
        """All that learns, as `policy/name` and `value/name`."""
        policy = {f"{POLICY}/{name}": parameter for name, parameter in self.trainable.items()}
        return policy | {f"{VALUE}/{name}": parameter for name, parameter in self.value_parameters.items()}
