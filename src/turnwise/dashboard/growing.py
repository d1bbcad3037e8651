"""Takes a file that another process appends to, gives its whole new lines and where they stand."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 1 << 20
_TAIL = 256


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file has been read, and enough to tell whether it is still the same file."""

    inode: int = 0
    offset: int = 0
    tail: str = ""
    """A digest of the last bytes before the offset."""


@dataclass(frozen=True, slots=True)
class Line:
    """One whole line, without its end."""

    content: bytes
    offset: int
    """Of its first byte."""

    @property
    def end(self) -> int:
        return self.offset + len(self.content) + 1


def is_same(path: Path, mark: Mark) -> bool:
    """Whether what was read up to the mark still stands there; not so once a resumed run has cut the file."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_ino != mark.inode or status.st_size < mark.offset:
            return False
        return _tail(file.fileno(), mark.offset) == mark.tail


def mark_at(path: Path, offset: int) -> Mark:
    with path.open("rb") as file:
        return Mark(os.fstat(file.fileno()).st_ino, offset, _tail(file.fileno(), offset))


def lines_from(path: Path, offset: int) -> Iterator[Line]:
    """Every whole line from the offset on; one that has no end yet is left for later."""
    with path.open("rb") as file:
        file.seek(offset)
        pieces: list[bytes] = []
        start = offset
        while block := file.read(_BLOCK):
            *whole, rest = block.split(b"\n")
            for content in whole:
                line = Line(b"".join([*pieces, content]), start)
                pieces = []
                start = line.end
                yield line
            pieces.append(rest)


def read_at(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), length, offset)


def _tail(file: int, offset: int) -> str:
    length = min(_TAIL, offset)
    return hashlib.blake2b(os.pread(file, length, offset - length), digest_size=8).hexdigest()
