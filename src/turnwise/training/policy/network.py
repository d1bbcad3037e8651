"""The model as scoring runs it: trunk, then the head where tokens are predicted."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from turnwise.models.model_support import why_not_ours
from turnwise.training.kernels import attention
from turnwise.training.kernels.prefix import Keeper, Prefix
from turnwise.training.packing.head import Head, room_on, score
from turnwise.training.packing.layout import PackedLayout
from turnwise.training.policy.token_rows import head_rows


class ForwardResult(NamedTuple):
    """The output of one forward pass; a tuple, so that hooks on a module's output find the tensors."""

    logprobs_BT: Tensor
    entropy_BT: Tensor
    hidden_RND: Tensor

    @property
    def hidden_ND(self) -> Tensor:  # noqa: N802 (names of tensors carry their axes)
        """The hidden states of all positions, flattened as `PackedLayout.asked` indexes them."""
        return self.hidden_RND.flatten(0, 1)


class Network(nn.Module):
    """The trunk at every position, then the head only at positions that predict an own token.

    It is one module, so that `torch.func.functional_call` swaps the weights of trunk and head together.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.why_plain = why_not_ours(model)
        if not self.why_plain:
            attention.register()
            model.set_attn_implementation(attention.NAME)
        check_head(model)

    def forward(
        self,
        layout: PackedLayout,
        *,
        with_entropy: bool = True,
        has_scores: bool = True,
        prefix: Prefix | None = None,
        keeper: Keeper | None = None,
    ) -> ForwardResult:
        """Score the layout's own tokens.

        prefix: keys and values of the tokens before the layout.
        keeper: collects each layer's keys and values.
        has_scores: if False, skip the head; log-probs and entropies are 0.
        """
        hidden_RND = self._hidden(layout, prefix, keeper)
        hidden_ND = hidden_RND.flatten(0, 1)
        mask_BT = layout.mask_BT
        exact = torch.promote_types(hidden_ND.dtype, torch.float32)
        zeros_BT = torch.zeros(mask_BT.shape, dtype=exact, device=hidden_ND.device)
        if not has_scores:
            return ForwardResult(zeros_BT, zeros_BT, hidden_RND)
        head = head_of(self.model)
        logprobs_P, entropy_P = score(hidden_ND, head, layout.asked, with_entropy=with_entropy)
        return ForwardResult(
            zeros_BT.masked_scatter(mask_BT, logprobs_P),
            zeros_BT.masked_scatter(mask_BT, entropy_P),
            hidden_RND,
        )

    def _hidden(self, layout: PackedLayout, prefix: Prefix | None, keeper: Keeper | None) -> Tensor:
        more: dict[str, Any] = {}
        if layout.tree is not None:
            device = layout.token_ids_RN.device
            more["position_ids"] = layout.position_ids_RN
            # transformers takes a 4-dimensional mask as final, so it builds none for the packed row
            more["attention_mask"] = torch.empty((1, 1, 1, 1), device=device)
            more["tree_plan"] = attention.AttentionPlan(layout.tree, device, prefix, keeper)
        output = self.model.base_model(input_ids=layout.token_ids_RN, use_cache=False, **more)
        hidden: Tensor = output.last_hidden_state
        return hidden


def head_of(model: Any) -> Head:
    linear = model.get_output_embeddings()
    softcap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    room, rows = room_on(linear.weight.device.type), head_rows(model)
    head = Head(linear.weight, getattr(linear, "bias", None), softcap, room)
    return head if rows is None else replace(head, rows_KD=rows.rows_KD, row_ids_K=rows.ids_K)


def check_head(model: Any) -> None:
    """Raise ValueError unless the model's logits on four tokens are `head_of` its last hidden state."""
    name = type(model).__name__
    if model.get_output_embeddings() is None:
        raise ValueError(f"{name} has no language-model head")
    ids = torch.arange(4, device=model.device)[None]
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits[0].float()
        actual = head_of(model).logits(model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0])
    gap = (expected - actual.float()).abs().max()
    if not gap <= 1e-2 * expected.abs().max():
        raise ValueError(f"{name}: its logits are not its head on its last hidden state: not supported")


def checkpoint_layers(model: Any, recompute_context: Any, setting: bool | int = True) -> None:
    """Recompute layers in the backward pass: all, or the first `setting` ones. The others are kept.

    `recompute_context` is called in the forward pass; the recomputation runs inside the context it returned.
    transformers checkpoints only layers in training mode, so the layer itself is set to it; its submodules
    stay in evaluation mode, without dropout.
    """
    from torch.utils.checkpoint import checkpoint

    def run(function: Any, *args: Any) -> Any:
        context = recompute_context()
        return checkpoint(function, *args, use_reentrant=False, context_fn=lambda: (nullcontext(), context))

    num_recomputed = count_recomputed(model, setting)
    for number, layer in enumerate(repeated_layers(model)):
        layer.gradient_checkpointing = layer.training = number < num_recomputed
        layer._gradient_checkpointing_func = run


def count_recomputed(model: Any, setting: bool | int) -> int:
    """The number of layers that this value of policy.gradient_checkpointing recomputes.

    Raises ValueError if the model has fewer layers.
    """
    num_layers = len(repeated_layers(model))
    if setting and not num_layers:
        raise ValueError(f"{type(model).__name__} has no layers that gradient_checkpointing could recompute")
    num_recomputed = num_layers if setting is True else int(setting)
    if num_recomputed > num_layers:
        raise ValueError(f"policy.gradient_checkpointing is {setting}, but the model has {num_layers} layers")
    return num_recomputed


def repeated_layers(model: Any) -> list[Any]:
    """The layers that the model repeats, in order; empty for an architecture without such layers."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
