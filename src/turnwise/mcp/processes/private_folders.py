"""Find mounts that make folders private on this machine."""

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from turnwise.mcp.calls.exhaustion import size_of
from turnwise.mcp.processes.mount_table import mount_points
from turnwise.mcp.processes.mounts import Mount, Way
from turnwise.mcp.processes.named_data import is_covered, outermost
from turnwise.mcp.processes.scratch import Scratch
from turnwise.mcp.processes.walls import (
    FRESH_FOLDERS,
    Enclosure,
    NotPrivate,
    open_namespace,
    require_programs,
    run_inside,
)

MAX_COPY_BYTES = 256 * 2**20
"""Largest folder that is copied for every episode if it cannot have an overlay."""
_NESTINGS = (
    (Way.OVERLAY, Way.OVERLAY),
    (Way.OVERLAY, Way.READ_ONLY),
    (Way.MEMORY, Way.MEMORY),
    (Way.MEMORY, Way.READ_ONLY),
)
"""What to try for a folder and for the file systems that are mounted below it."""


async def find_enclosure(
    named: Sequence[Path],
    around: Sequence[Path],
    fresh: Sequence[Mount],
    scratch: Scratch,
    *,
    has_network: bool = False,
) -> Enclosure:
    """Find mounts that make folders private on this machine; nothing stays mounted.

    Raises NotPrivate if a `named` folder cannot be made private; one in `around` is then only read-only.
    """
    require_programs()
    for folder in named:
        if folder == Path(folder.anchor):
            raise NotPrivate(f"{folder} is the whole file system")
    named = outermost(named)
    around = [
        folder
        for folder in sorted(set(around))
        if folder not in (Path(folder.anchor), *FRESH_FOLDERS) and not is_covered(folder, named)
    ]
    for way, nested_way in _NESTINGS:
        together = (*_with_nested([*named, *outermost(around)], way, nested_way), *fresh)
        with contextlib.suppress(NotPrivate, OSError):  # each folder is tried alone below, for its reason
            return await _tried(Enclosure(together, is_walled=True, has_network=has_network), scratch)
    await _tried(Enclosure(is_walled=True), scratch)
    nestings = (*_NESTINGS, (Way.COPY, Way.READ_ONLY))
    mounts = [mount for folder in named for mount in await _find_mounts(folder, nestings, scratch)]
    for folder in around:
        if not is_covered(folder, [mount.folder for mount in mounts if mount.way is not Way.EMPTY]):
            try:
                mounts += await _find_mounts(folder, _NESTINGS, scratch)
            except (NotPrivate, OSError):
                mounts.append(Mount(folder, Way.EMPTY if _is_temporary(folder) else Way.READ_ONLY))
    mounts.sort(key=lambda mount: mount.folder)
    return await _tried(Enclosure((*mounts, *fresh), is_walled=True, has_network=has_network), scratch)


async def find_fresh(fresh: Sequence[Mount], scratch: Scratch) -> Enclosure:
    """Return mounts for servers that work on the real files and have only folders of their own besides."""
    return await _tried(Enclosure(tuple(fresh)), scratch) if fresh else Enclosure()


def with_real(enclosure: Enclosure, folders: Iterable[Path]) -> Enclosure:
    """Return the enclosure with the real `folders`, and with network, for what is to be installed there."""
    real = tuple(Mount(folder, Way.REAL) for folder in folders)
    return replace(enclosure, mounts=(*enclosure.mounts, *real), has_network=True)


async def _tried(enclosure: Enclosure, scratch: Scratch) -> Enclosure:
    """Raise NotPrivate if this cannot be mounted here, or entered; nothing stays mounted."""
    trial = await open_namespace(enclosure, scratch)
    try:
        await run_inside(trial, ["true"])
    finally:
        await trial.close()
        await scratch.discard(trial.directory)
    return enclosure


async def _find_mounts(
    folder: Path, nestings: Sequence[tuple[Way, Way]], scratch: Scratch
) -> tuple[Mount, ...]:
    """Return mounts that make one folder private; raises NotPrivate with the reasons."""
    reasons = []
    for way, nested_way in nestings:
        if way is Way.COPY and (size := size_of(folder)[0]) > MAX_COPY_BYTES:
            reasons.append(f"{size / 1e6:,.0f} MB are too many to copy for every episode")
            continue
        mounts = tuple(_with_nested([folder], way, nested_way))
        try:
            await _tried(Enclosure(mounts, is_walled=True), scratch)
        except (NotPrivate, OSError) as error:
            reasons.append(f"{way}: {error}")
        else:
            return mounts
    raise NotPrivate(f"{folder}: {'; '.join(dict.fromkeys(reasons))}")


def _with_nested(folders: Sequence[Path], way: Way, nested_way: Way) -> Iterable[Mount]:
    """Return mounts for the folders and what is mounted below them: an overlay would show empty folders.

    They are in mount order: a folder comes before what is in it.
    """
    mounts = {folder: Mount(folder, way) for folder in folders}
    for point in mount_points(Path("/proc/self")):
        is_inside = any(point.folder.is_relative_to(folder) for folder in folders)
        if is_inside and (point.folder.is_dir() or point.folder.is_file()):
            is_kept = point.is_read_only or point.folder.is_file()
            mounts.setdefault(point.folder, Mount(point.folder, Way.READ_ONLY if is_kept else nested_way))
    return [mounts[folder] for folder in sorted(mounts)]


def _is_temporary(folder: Path) -> bool:
    return folder in (Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp"))  # noqa: S108
