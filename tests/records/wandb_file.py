"""Read the records in the .wandb file of an offline run.

The file has a header of 7 bytes, then blocks of 32 KiB with parts: checksum 4 · length 2 · kind 1 · content.
The kind is 1 for a whole record, 2 for its first part, 3 for a middle one, 4 for the last.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024


def records(path: Path) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    for content in _contents(path.read_bytes()):
        yield Record.FromString(content)


def _contents(data: bytes) -> Iterator[bytes]:
    assert data[:4] == b":W&B"
    at, gathered = 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # the rest of a block too short for a header is padding
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if not kind:
            return
        gathered += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield gathered
            gathered = b""
