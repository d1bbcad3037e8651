"""The names that SkyRL subclasses; CUDA IPC is for `skyrl.colocate = true`, which needs GPUs."""

from dataclasses import dataclass


@dataclass
class IPCTrainerInitInfo:
    packed: bool
    packed_buffer_size_bytes: int
    rank: int


class IPCTrainerWeightTransferEngine: ...
