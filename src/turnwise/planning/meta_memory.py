"""Peak memory of a computation on the meta device: storages are counted, and nothing is computed."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, counts every new storage for as long as a tensor refers to it.

    `known` are tensors that existed before and are counted elsewhere.
    """

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.current_bytes = 0
        self.peak_bytes = 0
        """The maximum of `current_bytes` so far."""
        self.largest_bytes = 0
        """The size of the largest single storage."""
        self._alive: set[int] = set()
        for tensor in known:
            self._alive.add(tensor.untyped_storage()._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_grouped = func is torch.ops.aten._grouped_mm.default
        result = _grouped_mm(*args, **(kwargs or {})) if is_grouped else func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, num_bytes = storage._cdata, storage.nbytes()
        if key in self._alive:  # a view, or written in place
            return
        self._alive.add(key)
        self.current_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)
        self.largest_bytes = max(self.largest_bytes, num_bytes)
        weakref.finalize(storage, self._release, key, num_bytes).atexit = False

    def _release(self, key: int, num_bytes: int) -> None:
        self._alive.discard(key)
        self.current_bytes -= num_bytes


def _grouped_mm(rows: Tensor, columns: Tensor, offsets: Tensor, *_: Any, **__: Any) -> Tensor:
    """The product of a mixture of experts; torch's own meta kernel supports only bfloat16.

    [S, I] rows on [E, I, O] weights, or [I, S] on [S, O] for the gradient of the weights, which is [E, I, O].
    """
    groups = () if columns.dim() == 3 else (offsets.shape[0],)
    return rows.new_empty((*groups, rows.shape[-2], columns.shape[-1]))
