"""Takes the .wandb file of an offline run, gives its records, in W&B's own protocol buffers.

7 bytes of header, then blocks of 32 KiB with parts of   checksum 4 · length 2 · kind 1 · content
kind: 1 whole, 2 first, 3 middle, 4 last
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
