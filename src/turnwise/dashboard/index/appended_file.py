"""How far a growing file has been read, and whether it is still the same file."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from turnwise.system.files.regular_files import open_to_read

_TAIL = 256


@dataclass(frozen=True, slots=True)
class Mark:
    """A read position, with enough of the file's identity to detect that the file was cut or replaced."""

    inode: int = 0
    offset: int = 0
    tail: str = ""
    """A digest of the last 256 bytes before the offset."""


def is_same(path: Path, mark: Mark) -> bool:
    """Whether the file still holds what was read up to the mark; False after a resumed run has cut it."""
    with open_to_read(path) as file:
        status = os.fstat(file.fileno())
        if status.st_ino != mark.inode or status.st_size < mark.offset:
            return False
        return _tail(file.fileno(), mark.offset) == mark.tail


def mark_at(path: Path, offset: int) -> Mark:
    with open_to_read(path) as file:
        return Mark(os.fstat(file.fileno()).st_ino, offset, _tail(file.fileno(), offset))


def read_at(path: Path, offset: int, length: int) -> bytes:
    with open_to_read(path) as file:
        return os.pread(file.fileno(), length, offset)


def _tail(file: int, offset: int) -> str:
    length = min(_TAIL, offset)
    return hashlib.blake2b(os.pread(file, length, offset - length), digest_size=8).hexdigest()
