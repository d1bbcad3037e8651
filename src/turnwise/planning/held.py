"""Takes a computation on the meta device, gives the bytes that it would hold at most: nothing is computed."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, counts each new storage from its first tensor to its last.

    `known`: tensors that were there before and are counted elsewhere.
    """

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.most = 0
        """Of `now`, so far."""
        self.largest = 0
        """Of one storage."""
        self._alive: set[int] = set()
        for tensor in known:
            self._alive.add(tensor.untyped_storage()._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        grouped = func is torch.ops.aten._grouped_mm.default
        given = _grouped(*args, **(kwargs or {})) if grouped else func(*args, **(kwargs or {}))
        for leaf in tree_leaves(given):
            if isinstance(leaf, Tensor):
                self._hold(leaf)
        return given

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, num_bytes = storage._cdata, storage.nbytes()
        if key in self._alive:  # a view, or written in place
            return
        self._alive.add(key)
        self.now += num_bytes
        self.most = max(self.most, self.now)
        self.largest = max(self.largest, num_bytes)
        weakref.finalize(storage, self._release, key, num_bytes).atexit = False

    def _release(self, key: int, num_bytes: int) -> None:
        self._alive.discard(key)
        self.now -= num_bytes


def _grouped(rows: Tensor, columns: Tensor, offsets: Tensor, *_: Any, **__: Any) -> Tensor:
    """What experts multiply to; torch's own word for it on the meta device knows bfloat16 alone.

    [S, I] rows on [E, I, O] weights, or [I, S] on [S, O] for the weights' gradient, which is [E, I, O].
    """
    groups = () if columns.dim() == 3 else (offsets.shape[0],)
    return rows.new_empty((*groups, rows.shape[-2], columns.shape[-1]))
