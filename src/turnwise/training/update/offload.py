"""AdamW with its moments and fp32 copies in host memory; a step streams them through the GPU in pieces.

The arithmetic of a piece is that of torch's AdamW on whole tensors, so both take the same step, bit for bit.
"""

import gc
import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from turnwise.models.device_memory import check_host_memory
from turnwise.models.page_locking import LockablePages

_CUDA: Any = torch.cuda  # parts of it have no types
PIECE = 2**24
"""Numbers of a tensor that are on the GPU at a time: copies of 64 MiB use all of the bus."""
NUM_SLOTS = 3
"""Pieces on the GPU at a time: one arrives, one is computed, one leaves."""


def slot_bytes(num_trained: int) -> int:
    """GPU memory of a step."""
    rows = NUM_SLOTS * 3 + 1  # the last: square roots of the second moments
    return 4 * rows * min(PIECE, num_trained)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of a parameter, flattened."""

    group: dict[str, Any]
    count: Tensor
    """The number of steps so far."""
    weight: Tensor
    gradient: Tensor
    hosted: tuple[Tensor, ...]
    """In host memory: both moments, and the fp32 copy of a narrower weight."""


class HostAdamW:
    """The part of torch's AdamW that `Optimizer` uses: groups, a state per parameter, and a step."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        weights: Mapping[Tensor, Tensor],
        *,
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        """weights: what a step changes, by the tensor of a group that holds its gradient.

        Raises ValueError if the host has too little free memory.
        """
        self.param_groups = groups
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self._weights = weights
        self._betas, self._epsilon = betas, epsilon
        self._memory: dict[Tensor, tuple[Tensor, Tensor]] = {}
        """Of the moments; it stays when the state is cleared."""
        narrow = {key: weight for key, weight in weights.items() if weight.dtype.itemsize < 4}
        for weight in weights.values():
            if not weight.is_contiguous():
                raise ValueError(f"optimizer.offload is true: a weight of {weight.shape} is not contiguous")
        if any(weight.is_cuda for weight in weights.values()):
            numbers = [*weights.values(), *weights.values(), *narrow.values()]
            check_host_memory(4 * sum(weight.numel() for weight in numbers))
        self.copies = {key: self._hosted(weight).copy_(weight.detach()) for key, weight in narrow.items()}
        """fp32 copies of narrower weights."""

    def set_state(self, key: Tensor, state: Mapping[str, Tensor]) -> None:
        """Copy a parameter's moments and number of steps to host memory."""
        for name, tensor in self._moments(key).items():
            tensor.copy_(state[name])

    def _moments(self, key: Tensor) -> dict[str, Tensor]:
        if key not in self.state:
            if key not in self._memory:
                self._memory[key] = (self._hosted(self._weights[key]), self._hosted(self._weights[key]))
            first, second = self._memory[key]
            self.state[key] = {
                "step": torch.tensor(0.0),
                "exp_avg": first.zero_(),
                "exp_avg_sq": second.zero_(),
            }
        return self.state[key]

    def _hosted(self, weight: Tensor) -> Tensor:
        """Zeros in fp32, page-locked for a GPU."""
        pages = LockablePages(-1, 4 * weight.numel(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if weight.is_cuda:
            pages.lock()
        return torch.frombuffer(pages, dtype=torch.float32).view(weight.shape)

    @torch.no_grad()
    def step(self) -> None:
        """Take a step with the gradients that are set. Memory that runs out does so before any change."""
        learning = [
            (group, key) for group in self.param_groups for key in group["params"] if key.grad is not None
        ]
        if not learning:
            return
        for _, key in learning:
            self._moments(key)
        slots = _new_slots(max(key.numel() for _, key in learning), learning[0][1].device)
        lanes = _Lanes(slots.device)
        pieces = (piece for group, key in learning for piece in self._pieces(group, key))
        for number, piece in enumerate(pieces):
            slot = number % NUM_SLOTS
            with lanes.incoming(slot):
                on_device = [
                    row[: part.numel()].copy_(part, non_blocking=True)
                    for row, part in zip(slots[slot], piece.hosted, strict=False)
                ]
            self._update(piece, on_device)
            with lanes.outgoing(slot):
                for part, tensor in zip(piece.hosted, on_device, strict=True):
                    part.copy_(tensor, non_blocking=True)
        lanes.finish()
        for _, key in learning:
            self.state[key]["step"] += 1

    def _pieces(self, group: dict[str, Any], key: Tensor) -> Iterator[_Piece]:
        state, weight, gradient = self.state[key], self._weights[key], key.grad
        assert gradient is not None, "the caller checks it"
        hosted = [state["exp_avg"], state["exp_avg_sq"]]
        if key in self.copies:
            hosted.append(self.copies[key])
        flat = [tensor.detach().reshape(-1) for tensor in (weight, gradient, *hosted)]
        for start in range(0, weight.numel(), PIECE):
            weight_part, gradient_part, *parts = (tensor[start : start + PIECE] for tensor in flat)
            yield _Piece(group, state["step"], weight_part, gradient_part, tuple(parts))

    def _update(self, piece: _Piece, on_device: Sequence[Tensor]) -> None:
        first, second, *copies = on_device
        value = copies[0] if copies else piece.weight
        adamw(
            [value],
            [piece.gradient],
            [first],
            [second],
            [],
            [piece.count.clone()],  # adamw counts up, but a parameter may have several pieces
            foreach=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=piece.group["lr"],
            weight_decay=piece.group["weight_decay"],
            eps=self._epsilon,
            maximize=False,
        )
        if copies:
            piece.weight.copy_(value)


def _new_slots(largest: int, device: torch.device) -> Tensor:
    """[slot, tensor, number]: memory for the pieces; as much as a piece's square roots need is left free."""

    def allocate() -> Tensor:
        size = min(PIECE, largest)
        slots = torch.empty((NUM_SLOTS, 3, size), dtype=torch.float32, device=device)
        torch.empty(size, dtype=torch.float32, device=device)
        return slots

    try:
        return allocate()
    except torch.OutOfMemoryError:
        gc.collect()
        torch.cuda.empty_cache()
        return allocate()


class _Lanes:
    """Copies to and from a GPU on streams of their own; on a CPU they are made in order."""

    def __init__(self, device: torch.device) -> None:
        self._is_on = device.type == "cuda"
        self._emptied: dict[int, Any] = {}
        if self._is_on:
            self._main = torch.cuda.current_stream(device)
            self._in, self._out = _CUDA.Stream(device), _CUDA.Stream(device)
            self._in.wait_stream(self._main)  # the memory of the slots may still be read there

    @contextmanager
    def incoming(self, slot: int) -> Iterator[None]:
        """Copy to the slot once its last piece has left; what follows waits for the copy."""
        if not self._is_on:
            yield
            return
        if slot in self._emptied:
            self._in.wait_event(self._emptied[slot])
        with torch.cuda.stream(self._in):
            yield
        self._main.wait_stream(self._in)

    @contextmanager
    def outgoing(self, slot: int) -> Iterator[None]:
        """Copy from the slot after the computation so far."""
        if not self._is_on:
            yield
            return
        self._out.wait_stream(self._main)
        with torch.cuda.stream(self._out):
            yield
        self._emptied[slot] = self._out.record_event()

    def finish(self) -> None:
        """Wait until the last piece is in host memory."""
        if self._is_on:
            self._out.synchronize()
