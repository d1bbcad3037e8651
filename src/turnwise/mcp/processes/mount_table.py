"""The file systems that a process can reach."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNT_ID = re.compile(r"^mnt_id:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A folder or file on which a file system is mounted."""

    folder: Path
    is_read_only: bool


def mount_points(process: Path) -> list[MountPoint]:
    """Return the mount points of a process, by its folder in /proc, without those that others hide.

    They are sorted by path, so that a parent comes before what is mounted below it.
    """
    mounts: dict[Path, MountPoint] = {}
    table = (process / "mountinfo").read_text("utf-8", "surrogateescape")
    for line in table.split("\n"):  # splitlines would also split at other characters, which names may have
        fields = line.split(" ")
        if len(fields) > 5:
            folder = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
            if _mount_id(Path(f"{process}/root{folder}")) == fields[0]:
                mounts[folder] = MountPoint(folder, is_read_only="ro" in fields[5].split(","))
    return [mounts[folder] for folder in sorted(mounts)]


def _mount_id(path: Path) -> str:
    """Return the number of the mount on which a path is; empty if it cannot be reached."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        match = _MOUNT_ID.search(Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii"))
        return match[1] if match else ""
    finally:
        os.close(descriptor)
