"""The files of the running interpreter that sandboxed code must be able to read, and its user id."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("numpy", "pandas", "dateutil", "six", "pytz", "tzdata")
"""Imported before the code, if installed: numpy, pandas and their dependencies."""

_LIBRARY_DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_FIRST_UID, _NUM_UIDS = 0x70000000, 1 << 24
"""User ids that no system assigns."""


@dataclass(frozen=True, slots=True)
class PythonLayout:
    """The real paths of one Python installation and its packages."""

    executable: Path
    prefix: Path
    libraries: tuple[Path, ...]
    packages: Mapping[str, Path]
    """Paths by their names in site-packages."""
    inside: Path
    """The directory that holds the `inside` package."""


def find_layout() -> PythonLayout:
    """Return the base interpreter of this virtual environment, and the environment's packages."""
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
    packages: dict[str, Path] = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin)
        if spec.submodule_search_locations:
            path = path.parent
            shared = path.with_name(f"{name}.libs")  # where wheels put their own shared libraries
            if shared.is_dir():
                packages[shared.name] = shared
        packages[path.name] = path
    return packages


def spare_uids() -> tuple[int, int]:
    """Return the first and the number of user ids for code; (0, 0) unless we are root with ids to spare."""
    if os.geteuid() != 0:
        return 0, 0
    entries = [line.split() for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]
    start, length = max((int(inner), int(count)) for inner, _, count in entries)
    if start + length > _FIRST_UID + _NUM_UIDS:
        return _FIRST_UID, _NUM_UIDS
    # a container's smaller range: its upper quarter, less the last ids (nobody is 65534)
    spare = length // 4 - 4
    return (start + length - length // 4, spare) if spare > 0 else (0, 0)
