"""Write results without overwriting: refuse early, or take a free name if the target appeared meanwhile."""

import errno
import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)


def require_free(path: Path) -> None:
    """Raise ValueError if there is something at the path, or if nothing can be created there.

    An empty folder counts as free.
    """
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise ValueError(f"{path}: is there already; choose another name, or remove it")
    require_writable(path.absolute().parent)


def require_writable(folder: Path) -> None:
    """Raise ValueError if the folder is not one, or cannot be written to or created."""
    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not place.is_dir():
        raise ValueError(f"{place}: is a file, not a folder")
    if not os.access(place, os.W_OK):
        raise ValueError(f"{place}: cannot be written to")


def numbered(path: Path) -> Iterator[Path]:
    """`a.json`, `a-2.json`, `a-3.json` and so on."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


def move_to_free(part: Path, target: Path) -> Path:
    """Rename `part` to the target, or to the first free numbered name; return the name and log another one.

    The work that made `part` may have taken hours, so it is never thrown away.
    """
    place = next(place for place in numbered(target) if _is_renamed(part, place))
    if place != target:
        logger.warning("%s appeared meanwhile; the result is in %s", target, place)
    return place


def _is_renamed(part: Path, place: Path) -> bool:
    """Rename if nothing is lost by it: a file takes no existing name, a folder only that of an empty one."""
    try:
        if part.is_dir():
            part.rename(place)
        else:
            place.hardlink_to(part)  # fails if the name is taken, unlike a rename
            part.unlink()
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True
