"""The file systems that are mounted on this machine, without the kernel's own."""

import re
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"), Path("/run"))
"""Devices, sockets and kernel settings: users keep no files here."""
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A folder on which a file system is mounted."""

    folder: Path
    options: tuple[str, ...]
    """Mount options, such as rw, nosuid, relatime."""

    @property
    def is_read_only(self) -> bool:
        return "ro" in self.options


def mount_points() -> list[MountPoint]:
    """Return the mount points sorted by path, so that a parent comes before what is mounted below it."""
    found: dict[Path, MountPoint] = {}
    for line in _TABLE.read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split(" ")
        folder = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if not is_kernel_folder(folder):
            found[folder] = MountPoint(folder, tuple(fields[5].split(",")))  # the last mount hides the others
    return [found[folder] for folder in sorted(found)]


def is_kernel_folder(folder: Path) -> bool:
    return any(folder.is_relative_to(kernel) for kernel in _KERNEL_FOLDERS)
