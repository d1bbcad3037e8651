"""Whether a server's disk is full, as its file system says: an error's text may be the model's own words.

A server on a full disk answers every call with an error, and MCP has no field for whose fault that is. Scored
as the model's mistake, a full disk would teach the model not to use the tool.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_MIN_FREE_BYTES = 4 << 20
_MIN_FREE_FILES = 16


def is_full(folders: Sequence[Path], own: Path | None = None) -> bool:
    """Return whether the file system of one of the folders is full, even without what is below `own`.

    `own`: what the episode itself has written. A disk that it filled is the model's fault.
    """
    full = [folder for folder in folders if _lacks_room(folder, 0, 0)]
    if not full:
        return False
    num_bytes, num_files = size_of(own) if own is not None else (0, 0)
    return any(_lacks_room(folder, num_bytes, num_files) for folder in full)


def _lacks_room(folder: Path, more_bytes: int, more_files: int) -> bool:
    try:
        system = os.statvfs(folder)
    except OSError:  # removed meanwhile
        return False
    free_bytes = system.f_bavail * system.f_frsize + more_bytes
    # A file system without a fixed number of files, such as btrfs, says 0 of 0.
    has_files = not system.f_files or system.f_favail + more_files >= _MIN_FREE_FILES
    return free_bytes < _MIN_FREE_BYTES or not has_files


def size_of(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files below the folder."""
    num_bytes = num_files = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    num_files += 1
                    num_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:  # removed meanwhile, or too deep for a path
            continue
    return num_bytes, num_files
