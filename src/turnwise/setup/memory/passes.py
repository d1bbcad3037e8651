"""The size of a model and its trained parameters, and the peak memory of its passes."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from turnwise.config import AlgorithmConfig, PolicyConfig, RolloutConfig, Sizes, ValueConfig
from turnwise.engines.transformers import PREFILL_CHUNK
from turnwise.setup.memory import attention
from turnwise.setup.memory.few_layers import HeldBytes, by_layers
from turnwise.setup.memory.meta_memory import MemoryCounter
from turnwise.setup.memory.norms import PlannedNorm
from turnwise.training.kernels.norms import fuse_norms
from turnwise.training.packing.head import Head, room_on
from turnwise.training.policy.adapters import Adapters
from turnwise.training.policy.network import checkpoint_layers, count_recomputed

NF4_BYTES = 1 / 2 + 1 / 64 + 4 / (64 * 256)
"""Per weight: 4 bits, 1/64 of its block's 8-bit scale, and 1/(64 · 256) of a float32 scale of scales."""


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A model on the meta device with its trained parameters, and the bytes of both."""

    model: Any
    num_parameters: int
    """Of the model itself, without adapters."""
    num_trained: int
    trained_bytes: int
    """In the types that the trained parameters have in the model."""
    adapter_bytes: int
    plain_bytes: int
    """The weights of the model, unquantised."""
    weight_bytes: int
    """The weights as the policy holds them, quantised or not."""
    adapted_bytes: int
    """The unquantised weights that adapters change."""
    merging_bytes: int
    """Merging an adapter into the largest weight that it changes: the weight, the change and their sum."""
    largest_bytes: int
    """The largest single unquantised weight."""
    largest_linear: int
    """The number of entries of the largest quantised weight; 0 if none is quantised."""
    kv_bytes: int
    """The keys and values of one token."""
    has_value: bool
    """Whether a second adapter computes values."""
    passes: "dict[int, dict[int, PassMemory]]" = field(default_factory=dict)
    """Training passes that were measured, by the number of recomputed layers, and by their tokens."""
    sampling: dict[int, int] = field(default_factory=dict)
    """The forward pass of the engine that was measured: its tokens, and its bytes."""


@dataclass(frozen=True, slots=True)
class PassMemory:
    """The memory of a training pass over `num_tokens` tokens."""

    num_tokens: int
    at_head_bytes: int
    """After the forward pass of the trunk, when everything that its backward pass needs is held."""
    peak_bytes: int
    largest_bytes: int
    """The largest single tensor."""


def measure_model(model: Any, policy: PolicyConfig, *, is_quantised: bool, has_value: bool) -> SizedModel:
    """Prepare the model as the policy does (adapters on a frozen base, or full tuning) and measure it."""
    base = list(model.parameters())
    num_parameters = sum(weight.numel() for weight in base)
    plain_bytes = sum(_bytes(weight) for weight in base)
    largest_bytes = max(_bytes(weight) for weight in base)
    linear = [layer.weight for layer in _quantisable(model)]
    quantised = sum(weight.numel() for weight in linear) if is_quantised else 0
    replaced = sum(_bytes(weight) for weight in linear) if is_quantised else 0
    changed, trainable = list[Tensor](), base
    if policy.tuning == "lora":
        trainable, changed = _adapt(model, policy, has_value=has_value, is_fused=not is_quantised)
    else:
        model.requires_grad_(True)
    model.eval()
    text = model.config.get_text_config()
    num_heads = text.num_attention_heads
    num_key_heads = getattr(text, "num_key_value_heads", None) or num_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // num_heads
    return SizedModel(
        model=model,
        num_parameters=num_parameters,
        num_trained=sum(weight.numel() for weight in trainable),
        trained_bytes=sum(_bytes(weight) for weight in trainable),
        adapter_bytes=sum(_bytes(weight) for weight in trainable) if policy.tuning == "lora" else 0,
        plain_bytes=plain_bytes,
        weight_bytes=plain_bytes - replaced + int(quantised * NF4_BYTES),
        adapted_bytes=sum(_bytes(weight) for weight in changed),
        merging_bytes=max((12 * weight.numel() + _bytes(weight) for weight in changed), default=0),
        largest_bytes=largest_bytes,
        largest_linear=max((weight.numel() for weight in linear), default=0) if is_quantised else 0,
        kv_bytes=2 * text.num_hidden_layers * num_key_heads * head_dim * model.dtype.itemsize,
        has_value=has_value,
    )


def _adapt(
    model: Any, config: PolicyConfig, *, has_value: bool, is_fused: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Add adapters; the trained parameters, and the weights that they change."""
    with torch.device("meta"):
        adapters = Adapters(model, config, "policy", seed=0)
        if has_value:
            adapters.add("value", seed=1)
    if is_fused:
        adapters.fuse()
    names = {name.rpartition(".lora_")[0] for name in adapters.paths("policy")} - {""}  # trained token rows
    changed = [model.get_submodule(name).get_base_layer().weight for name in names]
    return [weight for weight in model.parameters() if weight.requires_grad], changed


def has_value_adapter(algorithm: AlgorithmConfig, value: ValueConfig) -> bool:
    return algorithm.advantage == "gae" and value.trunk == "adapter"


def _quantisable(model: Any) -> list[nn.Linear]:
    head = model.get_output_embeddings()
    return [module for module in model.modules() if isinstance(module, nn.Linear) and module is not head]


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def training_memory(
    policy: SizedModel, sizes: Sizes, rollout: RolloutConfig, tasks_per_step: int, device: str
) -> PassMemory:
    """The memory of the forward and backward pass of a micro-batch, while gradients are already allocated.

    The micro-batch is the largest: at least one whole episode, at most all episodes of a step.
    """
    model, longest = policy.model, rollout.tokens_per_episode
    num_tokens = max(sizes.tokens_per_microbatch, longest)
    num_tokens = min(num_tokens, tasks_per_step * rollout.group_size * longest)
    num_recomputed = count_recomputed(model, sizes.gradient_checkpointing)
    measured = policy.passes.setdefault(num_recomputed, {})
    found = measured.get(num_tokens) or _between(measured, num_tokens)
    if found is not None:
        return found
    attention.register()
    model.set_attn_implementation(attention.NAME)
    if device == "cuda":
        fuse_norms(model, PlannedNorm)
    for weight in model.parameters():
        weight.grad = torch.empty_like(weight) if weight.requires_grad else None
    scores = _scores(longest, num_tokens, device)
    num_passes = 2 if policy.has_value else 1

    def measure(num_recomputed: int) -> HeldBytes:
        checkpoint_layers(model, nullcontext, num_recomputed)
        return _pass_bytes(model, num_tokens, scores, num_passes)

    held = by_layers(model, num_recomputed, measure)
    # a quantised weight is unpacked for its matrix product
    unpacked = policy.largest_linear * model.dtype.itemsize
    found = PassMemory(num_tokens, held.at_head + unpacked, held.peak + unpacked, held.largest)
    measured[num_tokens] = found
    return found


def _pass_bytes(model: Any, num_tokens: int, scores: tuple[int, int] | None, num_passes: int) -> HeldBytes:
    grads = [weight.grad for weight in model.parameters() if weight.grad is not None]
    with MemoryCounter([*model.parameters(), *model.buffers(), *grads]) as counter:
        trunks = [_trunk(model, num_tokens, scores) for _ in range(num_passes)]
        at_head = counter.current_bytes
        while trunks:
            hidden = trunks.pop()
            torch.autograd.backward(hidden, torch.empty_like(hidden))
            del hidden
    return HeldBytes(at_head, counter.peak_bytes, counter.largest_bytes)


def _between(measured: Mapping[int, PassMemory], num_tokens: int) -> PassMemory | None:
    """A pass between two measured ones; None if there are no such two.

    Its memory is at most this: every tensor grows linearly with the tokens, and the peak of such sums lies
    below the line between two of its points.
    """
    below = [known for known in measured.values() if known.num_tokens < num_tokens]
    above = [known for known in measured.values() if known.num_tokens > num_tokens]
    if not below or not above:
        return None
    low, high = max(below, key=_tokens), min(above, key=_tokens)
    share = (num_tokens - low.num_tokens) / (high.num_tokens - low.num_tokens)
    sizes = (
        math.ceil(start + share * (end - start))
        for start, end in zip(astuple(low)[1:], astuple(high)[1:], strict=True)
    )
    return PassMemory(num_tokens, *sizes)


def _tokens(known: PassMemory) -> int:
    return known.num_tokens


def _scores(longest: int, num_tokens: int, device: str) -> tuple[int, int] | None:
    """Queries and keys of the largest piece of attention on mps, where attention is not fused; else None."""
    if device != "mps":
        return None
    # all later tokens attend to a shared prefix; the product is largest when both have half of the tokens
    prefix = min(longest, num_tokens // 2)
    return max((num_tokens - prefix, prefix), (prefix, prefix))


def _trunk(model: Any, num_tokens: int, scores: tuple[int, int] | None) -> Tensor:
    ids = torch.empty((1, num_tokens), dtype=torch.long, device="meta")
    mask = torch.empty((1, 1, 1, 1), device="meta")  # four dimensions: no mask is built
    output = model.base_model(
        input_ids=ids, position_ids=ids, attention_mask=mask, use_cache=False, planned_scores=scores
    )
    hidden: Tensor = output.last_hidden_state
    return hidden


def head_bytes(policy: SizedModel, num_tokens: int, device: str) -> int:
    """Memory of `turnwise.training.packing.head`: the logits of a chunk three times, and the scored rows."""
    weight_VD = policy.model.get_output_embeddings().weight
    vocab_size, width = int(weight_VD.shape[0]), int(weight_VD.shape[1])
    head = Head(weight_VD, None, room=room_on(device))
    chunk = head.chunks(num_tokens)[0]
    num_bytes: int = 3 * 4 * (chunk.stop - chunk.start) * vocab_size
    num_bytes += (
        3 * num_tokens * width * int(weight_VD.element_size())
    )  # scored rows, their gradient, and its sum
    if num_tokens * vocab_size <= head.room.max_logits:
        num_bytes += 4 * num_tokens * vocab_size
    if weight_VD.requires_grad:
        num_bytes += vocab_size * width * 4
    return num_bytes


def sampling_bytes(policy: SizedModel, num_rows: int) -> int:
    """Peak memory of one step of the transformers engine: a chunk of a prompt and every running row."""
    model = policy.model
    num_tokens = num_rows + PREFILL_CHUNK
    if not policy.sampling:
        attention.register()
        model.set_attn_implementation(attention.NAME)
        with torch.no_grad(), MemoryCounter([*model.parameters(), *model.buffers()]) as counter:
            _trunk(model, num_tokens, None)
        policy.sampling[num_tokens] = counter.peak_bytes
    [(num_measured, peak_bytes)] = policy.sampling.items()
    vocab_size: int = model.get_output_embeddings().weight.shape[0]
    # logits, probabilities, and their cumulative sums in float64
    width = int(model.dtype.itemsize) + 4 + 4 + 8
    drawing_bytes: int = num_rows * vocab_size * width
    return max(peak_bytes * num_tokens // num_measured, drawing_bytes)
