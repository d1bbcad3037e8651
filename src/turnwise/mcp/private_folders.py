"""Private copies of folders at their own paths: a mount namespace that a set of server processes runs in.

A short-lived process makes the namespace and mounts over each folder an overlay whose changes go to a scratch
directory; where the kernel or the file system allows none, a copy is bound there. We keep the namespace alive
by a descriptor, and servers enter it with nsenter. The mounts are seen nowhere else and are gone when neither
the descriptor nor a process is left, so also when we are killed.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from turnwise.mcp.scratch import Scratch, fill

MAX_COPY_BYTES = 256 * 2**20
"""Largest folder that is copied for every episode where there is no overlay."""
_START_SECONDS = 20.0

_SCRIPT = """
set -e
while [ "$#" -gt 0 ]; do
  way=$1 folder=$2 place=$3
  shift 3
  case $way in
    overlay)
      cd "$folder"
      mount -t overlay overlay -o "lowerdir=.,upperdir=$place/upper,workdir=$place/work$OVERLAY" "$folder" ;;
    *) mount --bind "$place/copy" "$folder" ;;
  esac
done
echo ready
read -r _ || true
"""
# lowerdir=. since a path may hold the commas and colons that separate mount's options


class Way(StrEnum):
    """How a folder becomes private."""

    OVERLAY = "overlay"
    """Reads come from the folder itself, changes go to a scratch directory: nothing is copied."""
    COPY = "copy"
    FRESH = "fresh"
    """An episode's own directory, filled from a template, at a path that is the same in every episode."""


class NotPrivate(Exception):
    """Folders that cannot be made private here, and why."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, and how it is made private."""

    folder: Path
    way: Way
    template: Path | None = None
    """For FRESH: what the directory begins with."""


class Namespace:
    """An open namespace; `wrap` gives the command line that runs a program inside."""

    def __init__(self, maker: int, directory: Path) -> None:
        self.directory = directory
        kinds = ("mnt",) if os.geteuid() == 0 else ("mnt", "user")
        self._descriptors = {
            kind: os.open(f"/proc/{maker}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds
        }

    def wrap(self, argv: Sequence[str], cwd: Path | None) -> list[str]:
        """Entering a mount namespace resets the working directory, so that is set again inside."""
        place = f"/proc/{os.getpid()}/fd"
        enter = [_program("nsenter"), f"--mount={place}/{self._descriptors['mnt']}"]
        if "user" in self._descriptors:
            enter += [f"--user={place}/{self._descriptors['user']}", "--preserve-credentials"]
        return [*enter, "--", _program("env"), "-C", str(cwd or Path.cwd()), *argv]

    def close(self) -> None:
        """Let go of it; doing so again changes nothing."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _program(name: str) -> str:
    """Found on our own PATH: a server's environment may name another."""
    found = shutil.which(name)
    if found is None:
        raise NotPrivate(f"{name} is not installed (util-linux, coreutils)")
    return found


async def find_mounts(folders: Sequence[Path], scratch: Scratch) -> tuple[Mount, ...]:
    """How each folder can be made private on this machine; raises NotPrivate. Nothing stays mounted."""
    return tuple([Mount(folder, await _find_way(folder, scratch)) for folder in folders])


async def open_namespace(mounts: Sequence[Mount], scratch: Scratch) -> Namespace:
    """A namespace in which these folders are private; raises NotPrivate."""
    directory = await scratch.fresh("private", None)
    try:
        arguments = await asyncio.to_thread(_prepare, mounts, directory)
        return await _make(arguments, directory)
    except BaseException:
        await scratch.discard(directory)
        raise


async def try_mounts(mounts: Sequence[Mount], scratch: Scratch) -> None:
    """Raises NotPrivate if these cannot be mounted here; nothing stays mounted."""
    trial = await open_namespace(mounts, scratch)
    trial.close()
    await scratch.discard(trial.directory)


async def _find_way(folder: Path, scratch: Scratch) -> Way:
    if sys.platform != "linux" or not (shutil.which("unshare") and shutil.which("nsenter")):
        raise NotPrivate("private copies need Linux with unshare and nsenter (util-linux)")
    if folder == Path(folder.anchor):
        raise NotPrivate(f"{folder} is the whole file system")
    reasons = []
    for way in (Way.OVERLAY, Way.COPY):
        if way is Way.COPY and (size := await asyncio.to_thread(_size, folder)) > MAX_COPY_BYTES:
            reasons.append(f"{size / 1e6:,.0f} MB are too many to copy for every episode")
            continue
        try:
            await try_mounts([Mount(folder, way)], scratch)
        except (NotPrivate, OSError) as error:
            reasons.append(f"{way}: {error}")
        else:
            return way
    raise NotPrivate(f"{folder}: {'; '.join(reasons)}")


def _prepare(mounts: Sequence[Mount], directory: Path) -> list[str]:
    arguments: list[str] = []
    for number, mount in enumerate(mounts):
        place = directory / str(number)
        place.mkdir()
        if mount.way is Way.OVERLAY:
            (place / "upper").mkdir()
            (place / "work").mkdir()
            _take_attributes(mount.folder, place / "upper")
        elif mount.way is Way.COPY:
            shutil.copytree(mount.folder, place / "copy", symlinks=True)
        else:
            (place / "copy").mkdir()
            fill(place / "copy", mount.template)
        arguments += [mount.way, str(mount.folder), str(place)]
    return arguments


def _take_attributes(folder: Path, upper: Path) -> None:
    """A mounted folder has the mode and the owner of its upper one."""
    shutil.copystat(folder, upper)
    with contextlib.suppress(PermissionError):
        status = folder.stat()
        os.chown(upper, status.st_uid, status.st_gid)


async def _make(arguments: Sequence[str], directory: Path) -> Namespace:
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
        env={"PATH": os.environ.get("PATH", os.defpath), "OVERLAY": "" if is_root else ",userxattr"},
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
    finally:
        with contextlib.suppress(ProcessLookupError):
            maker.kill()
        await maker.communicate()  # also closes the pipes
    raise NotPrivate(words.partition("\n")[0] or f"unshare exited with code {maker.returncode}")


def _size(folder: Path) -> int:
    """Bytes below a folder, counted until there are too many to copy."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
        if total > MAX_COPY_BYTES:
            break
    return total
