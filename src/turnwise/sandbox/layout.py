"""Looks at the running interpreter, gives what of this machine code must be able to read, and as which id."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("numpy", "pandas", "dateutil", "six", "pytz", "tzdata")
"""Imported before the code, where installed: the `data` extra and what it stands on."""

_LIBRARY_DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_FIRST_UID, _NUM_UIDS = 0x70000000, 1 << 24
"""User ids that no system hands out."""


@dataclass(frozen=True, slots=True)
class PythonLayout:
    """The real paths of one Python installation and its packages."""

    executable: Path
    prefix: Path
    libraries: tuple[Path, ...]
    packages: Mapping[str, Path]
    """By the name each has in its site-packages."""
    inside: Path
    """The directory that holds the `inside` package."""


def find_layout() -> PythonLayout:
    """The interpreter beneath this one's virtual environment, and the packages of that environment."""
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    libraries = [Path(name) for name in _LIBRARY_DIRECTORIES if Path(name).is_dir()]
    if executable.is_relative_to("/nix/store"):
        libraries.append(Path("/nix/store"))
    return PythonLayout(
        executable=executable,
        prefix=Path(sys.base_prefix).resolve(),
        libraries=tuple(libraries),
        packages=_find_packages(),
        inside=Path(__file__).parent,
    )


def _find_packages() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin)
        if spec.submodule_search_locations:
            path = path.parent
            shared = path.with_name(f"{name}.libs")  # where wheels put their own shared libraries
            if shared.is_dir():
                found[shared.name] = shared
        found[path.name] = path
    return found


def spare_uids() -> tuple[int, int]:
    """First and number of the user ids that code may run under; none unless we are root with ids to spare."""
    if os.geteuid() != 0:
        return 0, 0
    entries = [line.split() for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]
    start, length = max((int(inner), int(count)) for inner, _, count in entries)
    if start + length > _FIRST_UID + _NUM_UIDS:
        return _FIRST_UID, _NUM_UIDS
    # a container's own range: the upper quarter, less nobody and what follows
    spare = length // 4 - 4
    return (start + length - length // 4, spare) if spare > 0 else (0, 0)
