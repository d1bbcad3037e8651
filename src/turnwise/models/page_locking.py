"""Host memory that is page-locked while it is mapped, so that a GPU copies it at the full rate of the bus."""

import logging
import mmap
from typing import Any

import torch

logger = logging.getLogger(__name__)


class LockablePages(mmap.mmap):
    """Mapped memory that stays page-locked, once `lock` was called, for exactly as long as it is mapped.

    Memory that is unmapped while it is locked leaves its address registered with CUDA. The kernel hands the
    address out again, and CUDA then refuses to lock it. Tensors over this memory keep it mapped, so the lock
    ends with the last of them. Torch's own pinned memory is up to twice as large as needed.
    """

    _address = 0

    def lock(self) -> None:
        """Page-lock the memory. If CUDA refuses, log it: copies are slower and otherwise the same."""
        if self._address:
            return
        address = torch.frombuffer(self, dtype=torch.uint8).data_ptr()
        try:
            torch.cuda.check_error(int(_cuda().cudaHostRegister(address, len(self), 0)))
        except RuntimeError as error:
            _forget_error()
            logger.warning("copies to and from the GPU are slow: CUDA cannot page-lock memory: %s", error)
            return
        self._address = address

    def __del__(self) -> None:
        if self._address:
            _cuda().cudaHostUnregister(self._address)


def _cuda() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _forget_error() -> None:
    """CUDA reports its last error once more, with the next kernel."""
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        return
