"""Open files whose content and kind somebody else may have chosen.

A run's folder may come from anywhere, so a name in it can be a FIFO that blocks, an endless device, a link
out of the folder, or a file with a line of gigabytes. Every file of a run's folder is opened here: regular
files only, links not followed, and never more bytes than the caller can use. Files that we create are
readable only by their owner.
"""

import errno
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

MAX_TABLE_BYTES = 4 << 20
"""The limit for recipes, summaries and the like, which have a few kilobytes."""

MAX_FILE_BYTES = 64 << 20
"""The limit for a file that is read whole: large tokenizers have 40 MB, a report of 100,000 episodes 30."""

MAX_LINE_BYTES = 64 << 20
"""The limit for one JSON line: an episode of a million tokens has about 30 MB."""

_BLOCK_BYTES = 1 << 20
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


class Damaged(ValueError):
    """A file exists but cannot be used."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of a file, without its line break."""

    content: bytes
    offset: int
    """The position of its first byte in the file."""
    is_ended: bool = True
    """False for the last line of a file that does not end with a line break."""

    @property
    def end(self) -> int:
        return self.offset + len(self.content) + self.is_ended


def open_to_read(path: Path, *, follows_links: bool = False) -> FileIO:
    """Open a regular file for reading. FileNotFoundError if there is none, Damaged if it cannot be read."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return os.fdopen(
        _open_checked(path, flags if follows_links else flags | os.O_NOFOLLOW), "rb", buffering=0
    )


def open_to_append(path: Path) -> FileIO:
    """Open a regular file for appending, created with mode 0600. Damaged if it is not a regular file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(_open_checked(path, flags), "ab", buffering=0)


def open_new(path: Path, *, is_private: bool = True) -> BufferedWriter:
    """Create a file, replacing any of that name; mode 0600, or by the umask if not `is_private`."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600 if is_private else 0o666), "wb")


def make_private_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Create a folder that only its owner can enter; folders above it are made by the umask."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=exist_ok)


def read_bytes(path: Path, max_bytes: int = MAX_FILE_BYTES, *, follows_links: bool = False) -> bytes:
    """Read a whole file. FileNotFoundError if there is none, Damaged if it is too large or unreadable."""
    with open_to_read(path, follows_links=follows_links) as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise Damaged(path, f"has more than {max_bytes:,} bytes")
        blocks, num_bytes = [], 0
        while block := _read(path, file, _BLOCK_BYTES):
            blocks.append(block)
            num_bytes += len(block)
            if num_bytes > max_bytes:  # it has grown since fstat
                raise Damaged(path, f"has more than {max_bytes:,} bytes")
    return b"".join(blocks)


def read_named(path: Path) -> bytes:
    """Read a file that the user has named: of any size, also through links, but no FIFO, socket or device."""
    return read_bytes(path, sys.maxsize, follows_links=True)


def read_named_text(path: Path) -> str:
    """Read a text file that the user has named, with or without a byte order mark, with any line ends."""
    return read_named(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_table(path: Path, max_bytes: int = MAX_TABLE_BYTES) -> dict[str, Any]:
    """Read a JSON object. FileNotFoundError if there is no file, Damaged if it holds anything else."""
    try:
        table = json.loads(read_bytes(path, max_bytes).decode())
    except UnicodeDecodeError as error:
        raise Damaged(path, f"is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise Damaged(path, "is JSON that is nested too deeply") from None
    except Damaged:
        raise
    except ValueError as error:
        raise Damaged(path, f"is not JSON: {error}") from None
    if not isinstance(table, dict):
        raise Damaged(path, f"is not a JSON object but of type {type(table).__name__}")
    return table


def lines_from(path: Path, offset: int = 0) -> Iterator[FileLine]:
    """Yield the lines from the offset on. Damaged at a line longer than MAX_LINE_BYTES."""
    with open_to_read(path) as file:
        file.seek(offset)
        parts: list[bytes] = []
        start, num_bytes = offset, 0
        while block := _read(path, file, _BLOCK_BYTES):
            *complete, rest = block.split(b"\n")
            for content in complete:
                line = FileLine(b"".join([*parts, content]), start)
                parts, num_bytes, start = [], 0, line.end
                yield line
            parts.append(rest)
            num_bytes += len(rest)
            if num_bytes > MAX_LINE_BYTES:
                raise Damaged(path, f"has a line of more than {MAX_LINE_BYTES:,} bytes, at byte {start}")
        if num_bytes:
            yield FileLine(b"".join(parts), start, is_ended=False)


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted. FileNotFoundError if there is none, Damaged if it cannot be listed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(folder, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(folder, _reason(folder, error, "a folder")) from None
    try:
        return sorted(os.listdir(descriptor))  # noqa: PTH208 (a descriptor has no iterdir)
    finally:
        os.close(descriptor)


def damage_of(path: Path) -> str:
    """Why a file cannot be opened; empty if it can, or if it does not exist."""
    try:
        open_to_read(path).close()
    except FileNotFoundError:
        return ""
    except Damaged as error:
        return error.reason
    return ""


def _open_checked(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, _reason(path, error)) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise Damaged(path, f"is {_kind(mode)}, not a file")
    return descriptor


def _reason(path: Path, error: OSError, wanted: str = "a file") -> str:
    """Describe why a path could not be opened; a link is reported as a link, whatever its target."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return f"cannot be read: {error.strerror}"
    if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR):
        return f"cannot be read: {error.strerror}"
    return f"is {_kind(mode)}, not {wanted}"


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "a file"
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")


def _read(path: Path, file: FileIO, num_bytes: int) -> bytes:
    try:
        return file.read(num_bytes) or b""
    except OSError as error:  # a disk or network failure
        raise Damaged(path, f"cannot be read: {error.strerror}") from None
