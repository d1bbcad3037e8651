"""Keys and values of a prefix, computed once for all micro-batches, and their gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

KeysValues = tuple[Tensor, Tensor]
"""Of one layer: [1, key heads, tokens, dim] each."""


class Keeper:
    """Takes each layer's keys and values as it first runs.

    What runs a layer again in the backward pass still holds its keeper: once emptied it takes nothing more.
    """

    def __init__(self) -> None:
        self._kept: dict[nn.Module, KeysValues] | None = {}

    def keep(self, layer: nn.Module, key: Tensor, value: Tensor) -> None:
        if self._kept is not None:
            assert layer not in self._kept, "a layer runs once in a forward pass"
            self._kept[layer] = key, value

    def empty(self) -> dict[nn.Module, KeysValues]:
        kept, self._kept = self._kept, None
        assert kept, "the model ran, and its attention is ours"
        return kept


class Prefix:
    """Keys and values of tokens that stand before all others of a pass, layer by layer.

    What micro-batches attend to are leaves, cut off from the graph that made them: a backward pass ends at
    them and adds to their gradients. `backward` takes these on through that graph, once for all.

    output: what the model made of the prefix in the end, which gets a gradient of 0 then.
    """

    def __init__(self, made: Mapping[nn.Module, KeysValues], output: Tensor | None = None) -> None:
        self._output = output
        self._made = [tensor for pair in made.values() for tensor in pair]
        self._leaves = [_leaf(pair) for pair in self._made]
        self.layers: dict[nn.Module, KeysValues] = dict(
            zip(made, zip(self._leaves[::2], self._leaves[1::2], strict=True), strict=True)
        )

    def backward(self) -> None:
        """Ends the pass: the graph is gone then. Without a gradient at any leaf there is nothing to do."""
        pairs = [
            (made, leaf.grad.to(made.dtype))
            for made, leaf in zip(self._made, self._leaves, strict=True)
            if leaf.grad is not None
        ]
        if pairs and self._output is not None:
            pairs.append((self._output, torch.zeros_like(self._output)))
        if pairs:
            torch.autograd.backward([made for made, _ in pairs], [grad for _, grad in pairs])


def _leaf(made: Tensor) -> Tensor:
    # at least fp32: in bf16 the gradient of a late micro-batch would be rounded away in the sum of the others
    exact = torch.promote_types(made.dtype, torch.float32) if made.requires_grad else made.dtype
    return made.detach().to(exact).requires_grad_(made.requires_grad)
