"""Broadcast the weights from the trainer's first rank to the engine, over gloo instead of NCCL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_TIMEOUT = timedelta(minutes=5)


@dataclass
class NCCLTrainerInitInfo:
    """Where the first rank of the trainer waits for the engines."""

    master_address: str
    master_port: int
    world_size: int
    packed: bool
    packed_buffer_size_bytes: int
    rank: int


def join(address: str, port: int, rank: int, world_size: int) -> dist.ProcessGroupGloo:
    """Join the group of the trainer's first rank (0) and the engines."""
    store = dist.TCPStore(  # type: ignore[attr-defined]  # torch exports it without saying so
        address, port, world_size, is_master=rank == 0, wait_for_workers=False, timeout=_TIMEOUT
    )
    return dist.ProcessGroupGloo(store, rank, world_size, _TIMEOUT)


def broadcast(group: dist.ProcessGroupGloo, tensor: torch.Tensor) -> None:
    """Send `tensor` from rank 0, or receive it."""
    options = dist.BroadcastOptions()
    options.rootRank = 0
    group.broadcast([tensor], options).wait()  # type: ignore[attr-defined]


class NCCLTrainerWeightTransferEngine:
    """Sends all parameters; every rank gathers them, the first one sends."""

    def __init__(self, init_info: NCCLTrainerInitInfo, client: Any, source: Any) -> None:
        self.client = client
        self.source = source
        self._is_sender = init_info.rank == 0
        if not self._is_sender:
            return
        info = asdict(init_info) | {"rank_offset": 1}
        with ThreadPoolExecutor(1) as pool:  # the engine answers when it has joined, so it is asked meanwhile
            asked = pool.submit(client.init_weight_transfer_engine, info)
            self._group = join(init_info.master_address, init_info.master_port, 0, init_info.world_size)
            asked.result()

    def send_weights(self) -> None:
        if not self._is_sender:
            for _ in self.source:
                pass
            return
        self.client.start_weight_update()
        metadata = self.source.metadata()
        update = {
            "names": [meta.name for meta in metadata],
            "dtype_names": [str(meta.dtype).removeprefix("torch.") for meta in metadata],
            "shapes": [list(meta.shape) for meta in metadata],
        }
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.client.update_weights, update)
            for _, tensor in self.source:
                broadcast(self._group, tensor.cpu())
            asked.result()
        self.client.finish_weight_update()

    def shutdown(self) -> None: ...
