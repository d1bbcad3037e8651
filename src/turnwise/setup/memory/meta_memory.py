"""Peak memory of a computation on the meta device: storages are counted, and nothing is computed."""

import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True, slots=True)
class _Outline:
    """Everything about a meta tensor that another operation can see."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")


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
        self._results: dict[Hashable, _Outline | None] = {}
        """Of operations seen before; None for views. Torch's own meta kernels take ten times as long."""
        self._in_place: set[Hashable] = set()
        """Operations that return their first argument with its outline unchanged."""
        for tensor in known:
            self._alive.add(tensor.untyped_storage()._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._grouped_mm.default:
            func = _grouped_mm
        key = _key_of(func, args, kwargs or {})
        if key in self._in_place:
            return args[0]
        known = self._results.get(key)
        if known is not None:
            result = known.tensor()
            self._count(result)
            return result
        result = func(*args, **(kwargs or {}))
        if key is not None and key not in self._results and isinstance(result, Tensor):
            self._results[key] = self._outline_of(result)
            if args and result is args[0] and key == _key_of(func, args, kwargs or {}):
                self._in_place.add(key)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf)
        return result

    def _outline_of(self, result: Tensor) -> _Outline | None:
        """The outline of a result with a new storage that holds nothing else; None for any other."""
        storage = result.untyped_storage()
        outline = _Outline(tuple(result.shape), result.stride(), result.dtype)
        is_alone = storage.nbytes() == outline.tensor().untyped_storage().nbytes()
        return outline if result.is_meta and is_alone and storage._cdata not in self._alive else None

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


def _key_of(func: Any, args: Any, kwargs: Any) -> Hashable | None:
    """The operation with the outlines of its arguments; None if an argument is something else."""
    key: list[Hashable] = [func, *kwargs]
    for value in (*args, *kwargs.values()):
        match value:
            case Tensor():
                key.append((value.shape, value.stride(), value.dtype))
            case list() if not any(isinstance(item, Tensor) for item in value):
                key.append(tuple(value))
            case None | bool() | int() | float() | torch.dtype() | torch.device():
                key.append((type(value), value))
            case _:
                return None
    return tuple(key)


def _grouped_mm(rows: Tensor, columns: Tensor, offsets: Tensor, *_: Any, **__: Any) -> Tensor:
    """The product of a mixture of experts; torch's own meta kernel supports only bfloat16.

    [S, I] rows on [E, I, O] weights, or [I, S] on [S, O] for the gradient of the weights, which is [E, I, O].
    """
    groups = () if columns.dim() == 3 else (offsets.shape[0],)
    return rows.new_empty((*groups, rows.shape[-2], columns.shape[-1]))
