"""Which folders a server's command names: in its arguments, its environment and its working directory."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from turnwise.mcp.spec import ServerSpec

_CODE_SUFFIXES = {".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".jar", ".sh", ".rb", ".php", ".wasm"}
_CODE_VARIABLES = {
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "NODE_PATH",
    "LD_LIBRARY_PATH",
    "JAVA_HOME",
}
"""Variables that say where programs are: the folders in them are not the user's data."""
_KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (the user's folders may be there)
_CONTAINER_PROGRAMS = {"docker", "podman", "nerdctl"}
_VOLUME = re.compile(r"^(?:--volume=|-v=?)?([~/.][^:]*):/|(?:^|[=,])(?:source|src)=([^,]+)")
"""`-v /host:/inside` or `--mount type=bind,source=/host,target=/inside`."""
_NO_NETWORK = re.compile(r"(?:^| )--net(?:work)?[= ]none(?: |$)")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?://)?(?=/)")
_MAX_CHARS = 4096
"""A longer text is not a path: Linux allows no longer ones."""


@dataclass(frozen=True, slots=True)
class NamedData:
    """Existing folders that a command names. A file counts as its folder: databases write next to it."""

    data: tuple[Path, ...] = ()
    """The user's data. Servers that name the same folder share one copy of it."""
    code: tuple[Path, ...] = ()
    """Folders of the scripts that are run; some servers write next to their own code."""

    @property
    def folders(self) -> tuple[Path, ...]:
        return outermost((*self.data, *self.code))


def named_data(spec: ServerSpec) -> NamedData:
    """Return the folders that the server's command names: the server could change them."""
    if spec.command is None:
        return NamedData()
    home = spec.cwd if spec.cwd is not None and spec.cwd.is_dir() else Path.cwd()
    folders: dict[Path, bool] = {}
    if spec.cwd is not None and spec.cwd.is_dir():
        folders[spec.cwd.resolve()] = True
    for text in _texts(spec.args, spec.env):
        for place in _places(text, home):
            is_data = place.suffix.lower() not in _CODE_SUFFIXES
            folder = (place if place.is_dir() else place.parent).resolve()
            if not _is_kernel_folder(folder):
                folders[folder] = folders.get(folder, False) or is_data
    data = outermost(folder for folder, is_data in folders.items() if is_data)
    code = (folder for folder, is_data in folders.items() if not is_data)
    return NamedData(data, outermost(folder for folder in code if not is_covered(folder, data)))


def is_container(spec: ServerSpec) -> bool:
    """Return whether the command starts a container."""
    return Path(spec.command or "").name in _CONTAINER_PROGRAMS


def has_container_network(spec: ServerSpec) -> bool:
    """Return whether the command's container has a network."""
    return is_container(spec) and not _NO_NETWORK.search(" ".join(spec.args))


def container_folders(spec: ServerSpec) -> tuple[str, ...]:
    """Return the folders that the command mounts into a container; empty if it starts none."""
    if not is_container(spec):
        return ()
    matches = (_VOLUME.search(argument) for argument in spec.args)
    return tuple(match[1] or match[2] for match in matches if match)


def outermost(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folders that need a mount of their own, because no other one covers them; sorted."""
    kept: list[Path] = []
    for folder in sorted(set(folders)):  # a parent sorts before what is in it
        if not is_covered(folder, kept):
            kept.append(folder)
    return tuple(kept)


def is_covered(folder: Path, mounted: Iterable[Path]) -> bool:
    """Return whether a folder can be written to through the mount of one that it is inside of.

    An ordinary user's overlay cannot copy folders of other users or groups, nor write below them.
    """
    upward = (folder, *folder.parents)
    return any(all(map(_is_own, upward[: upward.index(other)])) for other in mounted if other in upward)


def _is_own(path: Path) -> bool:
    if os.geteuid() == 0 or not os.access(path, os.F_OK):
        return True
    return (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), os.getegid())


def _is_kernel_folder(folder: Path) -> bool:
    is_shared = folder.is_relative_to(_SHARED_MEMORY) and folder != _SHARED_MEMORY
    return not is_shared and any(folder.is_relative_to(kernel) for kernel in _KERNEL_FOLDERS)


def _texts(args: tuple[str, ...], env: Mapping[str, str]) -> Iterator[str]:
    yield from args
    yield from (value for name, value in env.items() if name.upper() not in _CODE_VARIABLES)


def _places(text: str, home: Path) -> Iterator[Path]:
    """Yield the paths in an argument or value: the text itself, after a `--flag=`, in a URL, or in a list."""
    for candidate in _candidates(text):
        path = Path(candidate).expanduser()
        path = path if path.is_absolute() else home / path
        try:
            if path.exists():
                yield path
            elif os.sep in candidate and path.parent.is_dir() and path.parent != Path(path.anchor):
                yield path  # not there yet: the server would create it
        except (OSError, ValueError):  # a name too long, or with a NUL
            continue


def _candidates(text: str) -> Iterator[str]:
    if not text or len(text) > _MAX_CHARS or "\0" in text:
        return
    is_assignment = text.startswith("-") or re.match(r"^[A-Za-z_][A-Za-z0-9_-]*=", text)
    yield from _paths_in(text.partition("=")[2] if is_assignment else text)


def _paths_in(text: str) -> Iterator[str]:
    if scheme := _SCHEME.match(text):
        # sqlite:////home/x.db is absolute, sqlite:///x.db relative, file:///home/x absolute
        rest = re.split(r"[?#]", text[scheme.end() :])[0]
        yield "/" + rest.lstrip("/")
        if not rest.startswith("//"):
            yield f".{os.sep}{rest.lstrip('/')}"
        return
    if re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", text):
        return  # a remote host
    parts = re.split(r"[:,;]", text)
    if len(parts) > 1 and all(part.startswith(("/", "~")) for part in parts):
        yield from parts
    elif text:  # `_places` drops a plain word unless a file or folder of that name exists
        yield text
