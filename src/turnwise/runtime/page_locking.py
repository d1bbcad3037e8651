"""Page-lock host memory, so that a GPU copies it at the full rate of the bus."""

from typing import Any

import torch
from torch import Tensor


def lock_pages(tensor: Tensor) -> None:
    """Page-lock the memory of a tensor until `unlock_pages`. Raises RuntimeError if CUDA refuses.

    Torch's own pinned memory is up to twice as large as needed.
    """
    refusal = int(_cuda().cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0))
    try:
        torch.cuda.check_error(refusal)
    except RuntimeError:
        _forget_error()
        raise


def unlock_pages(tensor: Tensor) -> None:
    _cuda().cudaHostUnregister(tensor.data_ptr())


def _cuda() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _forget_error() -> None:
    """CUDA reports its last error once more, with the next kernel."""
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        return
