"""Private copies of folders at their own paths: a mount namespace that a set of server processes runs in.

A short-lived process creates the namespace and mounts an overlay over each folder. Its changes go to scratch
directories. If the kernel or the file system does not support that, a copy is bind-mounted instead. All other
file systems are mounted read-only. We keep the namespace alive by a descriptor, and servers enter it with
nsenter. The mounts are visible nowhere else. They are gone when neither the descriptor nor a process is left,
so also when we are killed.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from turnwise.mcp.mount_table import mount_points
from turnwise.mcp.named_data import outermost
from turnwise.mcp.scratch import Scratch, fill

MAX_COPY_BYTES = 256 * 2**20
"""Largest folder that is copied for every episode if it cannot have an overlay."""
MAX_MEMORY_BYTES = 2**30
"""Most bytes that the processes of one episode may write to overlays in memory."""
_START_SECONDS = 20.0

_SCRIPT = """
set -e
mount --bind "$1" "$1"
cd "$1"  # stays reachable when a mount hides its path, and keeps commas and colons out of mount's options
shift
save() {
  while [ "$#" -gt 0 ]; do
    case $1 in overlay|memory|real|read_only) mount --bind "$2" "$3/lower" ;; esac
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
while [ "$#" -gt 0 ]; do
  case $1 in
    overlay) lay "$3" "$3" "$2" ;;
    memory)
      mkdir -p "memory/$3/upper" "memory/$3/work"
      chmod "$4" "memory/$3/upper"
      if [ -n "$5" ]; then chown "$5" "memory/$3/upper"; fi
      lay "memory/$3" "$3" "$2" ;;
    real) mount -c --bind "$3/lower" "$2" ;;
    read_only)
      mount -c --bind "$3/lower" "$2"
      mount -o "remount,bind,$4" "$2" ;;
    sealed) mount -o "remount,bind,$4" "$2" ;;
    *) mount -c --bind "$3/copy" "$2" ;;
  esac
  shift 5
done
# with the saved folders, through which the real ones could be reached; under a private folder they are hidden
if [ -z "$IS_HIDDEN" ]; then umount --lazy "$PWD"; fi
echo ready
read -r _ || true
"""


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
    READ_ONLY = "read_only"
    """The real folder, read-only: it is inside a private one, but cannot be made private."""
    REAL = "real"
    """The real folder, writable, inside a private one."""
    SEALED = "sealed"
    """A file system outside all private folders, remounted read-only."""


_COVERING = (Way.OVERLAY, Way.MEMORY, Way.COPY)
"""These mounts hide what was mounted below the folder."""


class NotPrivate(Exception):
    """Folders cannot be made private on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, and what is mounted there."""

    folder: Path
    way: Way
    template: Path | None = None
    """For FRESH: the initial content of the directory."""
    options: tuple[str, ...] = ()
    """For READ_ONLY and SEALED: `ro`, and the options of the existing mount."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """What the processes of a set can change: private folders, and nothing else unless there is a leak."""

    mounts: tuple[Mount, ...] = ()
    leak: str = ""
    """Why processes can write to folders that are not private; empty if they cannot."""


class Namespace:
    """An open namespace; `wrap` returns the command line that runs a program inside it."""

    def __init__(self, maker: int, directory: Path) -> None:
        self.directory = directory
        kinds = ("mnt",) if os.geteuid() == 0 else ("mnt", "user")
        self._descriptors = {
            kind: os.open(f"/proc/{maker}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds
        }

    def wrap(self, argv: Sequence[str], cwd: Path | None) -> list[str]:
        """Return the command line that runs `argv` inside; `env` sets the directory that nsenter resets."""
        place = f"/proc/{os.getpid()}/fd"
        enter = [_program("nsenter"), f"--mount={place}/{self._descriptors['mnt']}"]
        if "user" in self._descriptors:
            enter += [f"--user={place}/{self._descriptors['user']}", "--preserve-credentials"]
        return [*enter, "--", _program("env"), "-C", str(cwd or Path.cwd()), *argv]

    def close(self) -> None:
        """Close the descriptors; safe to call again."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _program(name: str) -> str:
    """Return the program's path on our own PATH: a server's environment may find another one."""
    found = shutil.which(name)
    if found is None:
        raise NotPrivate(f"{name} is not installed (util-linux, coreutils)")
    return found


async def find_enclosure(
    named: Sequence[Path], around: Sequence[Path], fresh: Sequence[Mount], scratch: Scratch
) -> Enclosure:
    """Find mounts that make folders private on this machine, and the rest read-only; nothing stays mounted.

    Raises NotPrivate if a `named` folder cannot be made private; for a folder in `around` it is only a leak.
    """
    _check_possible(named)
    named = outermost(named)
    # A named folder inside one of these still gets its own mount: an unprivileged user's overlay cannot
    # write below folders of other users.
    around = [
        folder
        for folder in outermost(around)
        if folder != Path(folder.anchor) and not any(folder.is_relative_to(other) for other in named)
    ]
    for way, nested_way in (
        (Way.OVERLAY, Way.OVERLAY),
        (Way.OVERLAY, Way.READ_ONLY),
        (Way.MEMORY, Way.MEMORY),
        (Way.MEMORY, Way.READ_ONLY),
    ):
        private = _with_nested([Mount(folder, way) for folder in (*named, *around)], nested_way)
        enclosed = (*private, *fresh, *_sealed(private))
        with contextlib.suppress(NotPrivate, OSError):  # each folder is tried alone below, for its reason
            await try_mounts(enclosed, scratch)
            return Enclosure(enclosed)
    mounts = [Mount(folder, await _find_way(folder, scratch)) for folder in named]
    await try_mounts((*mounts, *fresh), scratch)
    return Enclosure((*mounts, *fresh), await _leak(around, scratch))


async def _leak(around: Sequence[Path], scratch: Scratch) -> str:
    for folder in around:
        try:
            await try_mounts([Mount(folder, Way.MEMORY)], scratch)
        except (NotPrivate, OSError) as error:
            return f"{folder} cannot be private: {error}"
    return "other folders cannot be made read-only"


def with_real(enclosure: Enclosure, folders: Iterable[Path]) -> tuple[Mount, ...]:
    """Return the enclosure's mounts, plus a REAL one for each of `folders` that would be private."""
    private = [mount.folder for mount in enclosure.mounts if mount.way in (Way.OVERLAY, Way.MEMORY)]
    real = [folder for folder in folders if any(folder.is_relative_to(other) for other in private)]
    return (*enclosure.mounts, *(Mount(folder, Way.REAL) for folder in real))


def _with_nested(mounts: Sequence[Mount], way: Way) -> tuple[Mount, ...]:
    """Add the file systems that are mounted below these folders: an overlay would show empty folders.

    The result is in mount order: a folder comes before what is in it.
    """
    found = {mount.folder: mount for mount in mounts}
    for point in mount_points():
        if any(point.folder.is_relative_to(mount.folder) for mount in mounts):
            options = ("ro", *_kept(point.options))
            own = Mount(point.folder, Way.READ_ONLY if point.is_read_only else way, options=options)
            found.setdefault(point.folder, own)
    return tuple(found[folder] for folder in sorted(found))


def _sealed(mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Yield read-only mounts of all other writable file systems."""
    private = [mount.folder for mount in mounts]
    for point in mount_points():
        is_private = any(point.folder.is_relative_to(folder) for folder in private)
        if not is_private and not point.is_read_only:
            yield Mount(point.folder, Way.SEALED, options=("ro", *_kept(point.options)))


def _kept(options: Sequence[str]) -> Iterator[str]:
    """Yield the options that a remount must repeat: an unprivileged user may not remove them."""
    yield from (option for option in options if option not in ("rw", "ro"))


async def open_namespace(mounts: Sequence[Mount], scratch: Scratch) -> Namespace:
    """Create a namespace with these mounts; raises NotPrivate."""
    directory = await scratch.fresh("private", None)
    try:
        arguments = await asyncio.to_thread(_prepare, mounts, directory)
        is_hidden = any(directory.is_relative_to(mount.folder) for mount in mounts if mount.way in _COVERING)
        return await _make(arguments, directory, is_hidden=is_hidden)
    except BaseException:
        await scratch.discard(directory)
        raise


async def try_mounts(mounts: Sequence[Mount], scratch: Scratch) -> None:
    """Raise NotPrivate if these cannot be mounted here; nothing stays mounted."""
    trial = await open_namespace(mounts, scratch)
    trial.close()
    await scratch.discard(trial.directory)


def _check_possible(named: Sequence[Path]) -> None:
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("nsenter")):
        raise NotPrivate("private copies need Linux with unshare and nsenter (util-linux)")
    for folder in named:
        if folder == Path(folder.anchor):
            raise NotPrivate(f"{folder} is the whole file system")


async def _find_way(folder: Path, scratch: Scratch) -> Way:
    reasons = []
    for way in (Way.OVERLAY, Way.MEMORY, Way.COPY):
        if way is Way.COPY and (size := await asyncio.to_thread(_size, folder)) > MAX_COPY_BYTES:
            reasons.append(f"{size / 1e6:,.0f} MB are too many to copy for every episode")
            continue
        try:
            await try_mounts([Mount(folder, way)], scratch)
        except (NotPrivate, OSError) as error:
            reasons.append(f"{way}: {error}")
        else:
            return way
    raise NotPrivate(f"{folder}: {'; '.join(dict.fromkeys(reasons))}")


def _prepare(mounts: Sequence[Mount], directory: Path) -> list[str]:
    """Create the directories that the script mounts; return its arguments: `directory`, then five a mount."""
    arguments = [str(directory)]
    for number, mount in enumerate(mounts):
        place = directory / str(number)
        place.mkdir()
        way, detail, owner = mount.way, ",".join(mount.options), ""
        if way is Way.OVERLAY and directory.is_relative_to(mount.folder):
            way = Way.MEMORY  # an overlay cannot keep its changes inside itself
        if way in (Way.OVERLAY, Way.MEMORY, Way.READ_ONLY, Way.REAL):
            (place / "lower").mkdir()
        if way is Way.OVERLAY:
            (place / "upper").mkdir()
            (place / "work").mkdir()
            _take_attributes(mount.folder, place / "upper")
        elif way is Way.MEMORY:
            (directory / "memory").mkdir(exist_ok=True)
            status = mount.folder.stat()
            detail = f"{stat.S_IMODE(status.st_mode):o}"
            owner = f"{status.st_uid}:{status.st_gid}" if os.geteuid() == 0 else ""
        elif way is Way.COPY:
            shutil.copytree(mount.folder, place / "copy", symlinks=True)
        elif way is Way.FRESH:
            (place / "copy").mkdir()
            fill(place / "copy", mount.template)
        elif way is Way.REAL:
            mount.folder.mkdir(parents=True, exist_ok=True)
        arguments += [way, str(mount.folder), str(number), detail, owner]
    return arguments


def _take_attributes(folder: Path, upper: Path) -> None:
    """Copy mode and owner to the upper directory: the mounted folder shows those of the upper one."""
    shutil.copystat(folder, upper)
    with contextlib.suppress(PermissionError):
        status = folder.stat()
        os.chown(upper, status.st_uid, status.st_gid)


async def _make(arguments: Sequence[str], directory: Path, *, is_hidden: bool) -> Namespace:
    is_root = os.geteuid() == 0
    unshare = [_program("unshare"), "--mount", "--propagation", "private"]
    if not is_root:
        unshare += ["--map-current-user", "--keep-caps"]
    maker = await asyncio.create_subprocess_exec(
        *unshare,
        *("sh", "-c", _SCRIPT, "turnwise-private-folders", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "OVERLAY": "" if is_root else ",userxattr",
            "MEMORY_BYTES": str(MAX_MEMORY_BYTES),
            "IS_HIDDEN": "yes" if is_hidden else "",
        },
        start_new_session=True,
    )
    assert maker.stdout is not None
    assert maker.stderr is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            if await maker.stdout.readline() == b"ready\n":
                return Namespace(maker.pid, directory)
            words = (await maker.stderr.read(2000)).decode("utf-8", "replace").strip()
    except TimeoutError:
        words = f"no namespace within {_START_SECONDS:g} s"
        _kill(maker)
    except BaseException:
        _kill(maker)
        raise
    finally:
        await maker.communicate(b"\n")  # ends the script and closes the pipes
    raise NotPrivate(words.partition("\n")[0] or f"unshare exited with code {maker.returncode}")


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _size(folder: Path) -> int:
    """Return the bytes below a folder; stops counting above MAX_COPY_BYTES."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
        if total > MAX_COPY_BYTES:
            break
    return total
