"""What is mounted at a private folder, and the script that mounts it in a new mount namespace."""

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from turnwise.mcp.processes.scratch import fill

MAX_MEMORY_BYTES = 2**30
"""Most bytes that the processes of one episode may write to overlays in memory."""

SCRIPT = """
set -e
mount --bind "$1" "$1"
cd "$1"  # stays reachable when a mount hides its path, and keeps commas and colons out of mount's options
shift
save() {
  while [ "$1" != -- ]; do
    case $1 in overlay|memory|real|read_only) mount --rbind "$2" "$3/lower" ;; esac
    shift 5
  done
}
lay() {
  upper=$1
  mount -t overlay overlay -o "lowerdir=$2/lower,upperdir=$upper/upper,workdir=$upper/work$OVERLAY" "$3"
}
save "$@"
# from here on -c: a path that is hidden must not be made absolute
if [ -d memory ]; then mount -t tmpfs -o "size=$MEMORY_BYTES,mode=700" turnwise memory; fi
while [ "$1" != -- ]; do
  case $1 in
    overlay) lay "$3" "$3" "$2" ;;
    memory)
      mkdir -p "memory/$3/upper" "memory/$3/work"
      chmod "$4" "memory/$3/upper"
      if [ -n "$5" ]; then chown "$5" "memory/$3/upper"; fi
      lay "memory/$3" "$3" "$2" ;;
    real|read_only) mount -c --rbind "$3/lower" "$2" ;;
    empty) ;;
    *) mount -c --bind "$3/copy" "$2" ;;
  esac
  shift 5
done
shift
if [ -n "$TERMINALS" ]; then mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts; fi
# with the saved folders, through which the real ones could be reached; under a private folder they are hidden
if [ -z "$IS_HIDDEN" ]; then umount --lazy "$PWD"; fi
cd /
exec "$@"
"""
"""Arguments: the scratch directory, five words a mount, `--`, and the command to run at the end."""


class Way(StrEnum):
    """What is mounted at a folder."""

    OVERLAY = "overlay"
    """Reads come from the folder itself, changes go to a scratch directory: nothing is copied."""
    MEMORY = "memory"
    """An overlay whose changes are kept in memory: if the scratch directories are inside the folder, or on a
    file system that cannot hold an overlay's changes."""
    COPY = "copy"
    FRESH = "fresh"
    """The episode's own directory, filled from a template, at the same path in every episode."""
    EMPTY = "empty"
    """An empty folder in memory."""
    READ_ONLY = "read_only"
    """The real folder, read-only: it is inside a private one, but cannot be made private."""
    REAL = "real"
    """The real folder, writable."""


_COVERING = (Way.OVERLAY, Way.MEMORY, Way.COPY)
"""These mounts hide what was mounted below the folder."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, and what is mounted there."""

    folder: Path
    way: Way
    template: Path | None = None
    """For FRESH: the initial content of the directory."""


def is_hidden(directory: Path, mounts: Sequence[Mount]) -> bool:
    """Return whether the mounts hide the directory."""
    return any(directory.is_relative_to(mount.folder) for mount in mounts if mount.way in _COVERING)


def prepare(mounts: Sequence[Mount], directory: Path) -> list[str]:
    """Create the directories that the script mounts; return its arguments up to `--`."""
    arguments = [str(directory)]
    for number, mount in enumerate(mounts):
        place = directory / str(number)
        place.mkdir()
        way, mode, owner = mount.way, "", ""
        if way is Way.OVERLAY and directory.is_relative_to(mount.folder):
            way = Way.MEMORY  # an overlay cannot keep its changes inside itself
        if way is Way.READ_ONLY and not mount.folder.is_dir():
            (place / "lower").touch()
        elif way in (Way.OVERLAY, Way.MEMORY, Way.READ_ONLY, Way.REAL):
            (place / "lower").mkdir()
        if way is Way.OVERLAY:
            (place / "upper").mkdir()
            (place / "work").mkdir()
            _take_attributes(mount.folder, place / "upper")
        elif way is Way.MEMORY:
            (directory / "memory").mkdir(exist_ok=True)
            status = mount.folder.stat()
            mode = f"{stat.S_IMODE(status.st_mode):o}"
            owner = f"{status.st_uid}:{status.st_gid}" if os.geteuid() == 0 else ""
        elif way is Way.COPY:
            shutil.copytree(mount.folder, place / "copy", symlinks=True)
        elif way is Way.FRESH:
            (place / "copy").mkdir()
            fill(place / "copy", mount.template)
        elif way is Way.REAL:
            mount.folder.mkdir(parents=True, exist_ok=True)
        arguments += [way, str(mount.folder), str(number), mode, owner]
    return [*arguments, "--"]


def _take_attributes(folder: Path, upper: Path) -> None:
    """Copy mode and owner to the upper directory: the mounted folder shows those of the upper one."""
    shutil.copystat(folder, upper)
    with contextlib.suppress(PermissionError):
        status = folder.stat()
        os.chown(upper, status.st_uid, status.st_gid)
