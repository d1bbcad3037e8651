"""Keys and values of the running requests, one row each, in one dense block."""

import torch

from turnwise.engines.continuous.tree import KVShape

GRAIN = 64
"""Row lengths are multiples of this, so that one more token rarely needs a new block."""


def rounded(num_tokens: int) -> int:
    return -(-num_tokens // GRAIN) * GRAIN


class CacheRows:
    """Rows 0..n-1 are in use, always without a gap, so the running batch is one slice."""

    def __init__(self, shape: KVShape) -> None:
        self._shape = shape
        self.free()

    def free(self) -> None:
        self.block = self._empty(0, 0)
        self.num_rows, self.length = 0, 0

    @property
    def num_tokens(self) -> int:
        """The block's capacity, used or not."""
        return self.num_rows * self.length

    def reserve(self, num_rows: int, length: int, *, num_used: int) -> None:
        """Grow the block to at least this size; the first `num_used` rows keep their content."""
        if num_rows > self.num_rows or length > self.length:
            num_rows, length = max(num_rows, self.num_rows), max(length, self.length)
            block = self._empty(num_rows, length)
            block[:, :, :num_used, :, : self.length] = self.block[:, :, :num_used]
            self.block, self.num_rows, self.length = block, num_rows, length

    def _empty(self, num_rows: int, length: int) -> torch.Tensor:
        shape = self._shape
        size = (shape.num_layers, 2, num_rows, shape.num_kv_heads, length, shape.head_dim)
        # Zeros: a masked position of an unwritten block must not be NaN, since 0 × NaN is NaN.
        return torch.zeros(size, dtype=shape.dtype, device=shape.device)

    def write(self, row: int, start: int, kv: torch.Tensor) -> None:
        """Copy one sequence's keys and values [layer, 2, head, token, dim] into a row."""
        self.block[:, :, row, :, start : start + kv.shape[3]] = kv

    def read(self, row: int, stop: int) -> torch.Tensor:
        return self.block[:, :, row, :, :stop]

    def clear(self, row: int) -> None:
        """Zero a row: a NaN in it, even a masked one, would spoil the next request's sums."""
        self.block[:, :, row] = 0

    def move(self, source: int, target: int, stop: int) -> None:
        """Copy the last row into the gap of one that left."""
        if source != target:
            self.block[:, :, target, :, :stop] = self.block[:, :, source, :, :stop]
