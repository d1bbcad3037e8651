"""Takes a model's outline, gives the sizes of what learns, and what a pass over tokens holds at most."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from turnwise.config import Recipe
from turnwise.engines.transformers import PREFILL_CHUNK
from turnwise.planning import attention
from turnwise.planning.held import Held
from turnwise.planning.norms import PlannedNorm
from turnwise.training.adapters import Adapters
from turnwise.training.head import Head, room_on
from turnwise.training.network import checkpoint_layers
from turnwise.training.norms import fuse_norms

NF4_BYTES = 1 / 2 + 1 / 64 + 4 / (64 * 256)
"""A weight: 4 bits, a share of its block's 8-bit scale, and of those scales' own float32 one."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A model on the meta device with what learns in it, and how many bytes it all takes."""

    model: Any
    num_parameters: int
    """Of the model itself, adapters not counted."""
    num_learning: int
    learning_bytes: int
    """In the types that they have in the model."""
    adapter_bytes: int
    plain_bytes: int
    """The model's own weights, unquantised."""
    weight_bytes: int
    """The same as they are held by the policy."""
    adapted_bytes: int
    """Of the plain weights that adapters change."""
    largest_bytes: int
    """Of one plain weight."""
    largest_linear: int
    """Numbers in the largest of those that are quantised; 0 if none are."""
    kv_bytes: int
    """Of the keys and values of one token."""


@dataclass(frozen=True, slots=True)
class Most:
    """What a training pass over `num_tokens` holds."""

    num_tokens: int
    at_head: int
    """When the trunk's forward pass is over, and everything that its backward pass needs is there."""
    most: int
    largest: int
    """One tensor."""


def trained(model: Any, recipe: Recipe) -> Trained:
    """As the policy prepares it: adapters on a frozen base, or every parameter."""
    own = list(model.parameters())
    num_parameters = sum(each.numel() for each in own)
    plain_bytes = sum(_bytes(each) for each in own)
    largest_bytes = max(_bytes(each) for each in own)
    linear = [each.weight for each in _quantisable(model)]
    is_quantised = recipe.model.quantisation != "none"
    quantised = sum(each.numel() for each in linear) if is_quantised else 0
    replaced = sum(_bytes(each) for each in linear) if is_quantised else 0
    adapted, learning = 0, own
    if recipe.policy.tuning == "lora":
        learning, adapted = _adapt(model, recipe)
    else:
        model.requires_grad_(True)
    model.eval()
    text = model.config.get_text_config()
    num_heads = text.num_attention_heads
    num_key_heads = getattr(text, "num_key_value_heads", None) or num_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // num_heads
    return Trained(
        model=model,
        num_parameters=num_parameters,
        num_learning=sum(each.numel() for each in learning),
        learning_bytes=sum(_bytes(each) for each in learning),
        adapter_bytes=sum(_bytes(each) for each in learning) if recipe.policy.tuning == "lora" else 0,
        plain_bytes=plain_bytes,
        weight_bytes=plain_bytes - replaced + int(quantised * NF4_BYTES),
        adapted_bytes=adapted,
        largest_bytes=largest_bytes,
        largest_linear=max((each.numel() for each in linear), default=0) if is_quantised else 0,
        kv_bytes=2 * text.num_hidden_layers * num_key_heads * head_dim * model.dtype.itemsize,
    )


def _adapt(model: Any, recipe: Recipe) -> tuple[list[Tensor], int]:
    """The parameters that learn, and the bytes of the weights that they change."""
    with torch.device("meta"):
        adapters = Adapters(model, recipe.policy, "policy", seed=0)
        if _has_value_adapter(recipe):
            adapters.add("value", seed=1)
    if recipe.policy.kernels == "fused" and recipe.model.quantisation == "none":
        adapters.fuse()
    changed = {name.rpartition(".lora_")[0] for name in adapters.paths("policy")}
    adapted = sum(_bytes(model.get_submodule(name).get_base_layer().weight) for name in changed)
    return [each for each in model.parameters() if each.requires_grad], adapted


def _has_value_adapter(recipe: Recipe) -> bool:
    return recipe.algorithm.advantage == "gae" and recipe.value.trunk == "adapter"


def _quantisable(model: Any) -> list[nn.Linear]:
    head = model.get_output_embeddings()
    return [each for each in model.modules() if isinstance(each, nn.Linear) and each is not head]


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def training_bytes(policy: Trained, recipe: Recipe, device: str) -> Most:
    """A micro-batch, forward and backward, beside gradients that were gathered before."""
    model, num_tokens = policy.model, _tokens_of(recipe)
    attention.register()
    model.set_attn_implementation(attention.NAME)
    if recipe.policy.kernels == "fused" and device == "cuda":
        fuse_norms(model, PlannedNorm)
    if recipe.policy.gradient_checkpointing:
        checkpoint_layers(model, nullcontext)
    for each in model.parameters():
        each.grad = torch.empty_like(each) if each.requires_grad else None
    grads = [each.grad for each in model.parameters() if each.grad is not None]
    num_passes = 2 if _has_value_adapter(recipe) else 1
    with Held([*model.parameters(), *model.buffers(), *grads]) as held:
        trunks = [_trunk(model, num_tokens, _scores(recipe, num_tokens, device)) for _ in range(num_passes)]
        at_head = held.now
        while trunks:
            hidden = trunks.pop()
            torch.autograd.backward(hidden, torch.empty_like(hidden))
            del hidden
    # a quantised weight is a plain one while it is multiplied with
    unpacked = policy.largest_linear * model.dtype.itemsize
    return Most(num_tokens, at_head + unpacked, held.most + unpacked, held.largest)


def _tokens_of(recipe: Recipe) -> int:
    """In the largest micro-batch: an episode is never cut, and there are only so many in a step."""
    longest = recipe.rollout.tokens_per_episode
    in_a_step = recipe.run.tasks_per_step * recipe.rollout.group_size * longest
    return min(max(recipe.update.tokens_per_microbatch, longest), in_a_step)


def _scores(recipe: Recipe, num_tokens: int, device: str) -> tuple[int, int] | None:
    """Queries and keys of the largest piece of attention, where it is not fused: mps."""
    if device != "mps":
        return None
    # a prefix is seen by all that comes after it; at worst each has half
    prefix = min(recipe.rollout.tokens_per_episode, num_tokens // 2)
    return max((num_tokens - prefix, prefix), (prefix, prefix))


def _trunk(model: Any, num_tokens: int, scores: tuple[int, int] | None) -> Tensor:
    ids = torch.empty((1, num_tokens), dtype=torch.long, device="meta")
    mask = torch.empty((1, 1, 1, 1), device="meta")  # four dimensions: no mask is built
    output = model.base_model(
        input_ids=ids, position_ids=ids, attention_mask=mask, use_cache=False, planned_scores=scores
    )
    hidden: Tensor = output.last_hidden_state
    return hidden


def head_bytes(policy: Trained, num_tokens: int, device: str) -> int:
    """What `turnwise.training.head` holds: a chunk's logits three times, and the rows that it scores."""
    weight_VD = policy.model.get_output_embeddings().weight
    vocab_size, width = int(weight_VD.shape[0]), int(weight_VD.shape[1])
    head = Head(weight_VD, None, room=room_on(device))
    chunk = head.chunks(num_tokens)[0]
    num_bytes: int = 3 * 4 * (chunk.stop - chunk.start) * vocab_size
    num_bytes += (
        3 * num_tokens * width * int(weight_VD.element_size())
    )  # chosen rows, their gradient, and its sum
    if num_tokens * vocab_size <= head.room.max_logits:
        num_bytes += 4 * num_tokens * vocab_size
    if weight_VD.requires_grad:
        num_bytes += vocab_size * width * 4
    return num_bytes


def sampling_bytes(policy: Trained, recipe: Recipe) -> int:
    """One step of the transformers engine: a chunk of a prompt and every running row."""
    model, num_rows = policy.model, recipe.engine.max_batch
    with torch.no_grad(), Held([*model.parameters(), *model.buffers()]) as held:
        _trunk(model, num_rows + PREFILL_CHUNK, None)
    vocab_size: int = model.get_output_embeddings().weight.shape[0]
    # logits, probabilities, and their running sums in float64
    width = int(model.dtype.itemsize) + 4 + 4 + 8
    drawing: int = num_rows * vocab_size * width
    most: int = max(held.most, drawing)
    return most
